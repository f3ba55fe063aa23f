"""``reclaim gc``: plan and apply in a single run, for a scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict, cast

import typer

from reclaim.cli.command import command
from reclaim.cli.commands.apply import (
    HISTORY_STAYS,
    NOTHING_APPLIED,
    ApplyAnswer,
    applied_document,
    sentence,
)
from reclaim.cli.options.kinds import KindOptions
from reclaim.cli.options.limits import LimitOptions
from reclaim.cli.options.panels import LOOK_AT
from reclaim.cli.options.plan_argument import shown, to_show
from reclaim.cli.options.plan_options import PlanningOptions
from reclaim.cli.options.quarantining import QuarantineOptions
from reclaim.cli.options.rules import RuleOptions
from reclaim.cli.options.store_names import STORE
from reclaim.cli.running import RunOptions
from reclaim.cli.session import Session
from reclaim.cli.views import exits
from reclaim.cli.views.describe import expired, objects
from reclaim.cli.views.documents import (
    AppliedDocument,
    ErrorDocument,
    Form,
    HolderDocument,
    Id,
    PolicyOrigin,
    TooYoungDocument,
)
from reclaim.cli.views.failure import Failure
from reclaim.cli.views.output import Block
from reclaim.cli.views.plan_view import too_young
from reclaim.cli.views.policy_view import STORED
from reclaim.errors import InvalidInput

if TYPE_CHECKING:
    from reclaim.api.gc import StoreOutcome
    from reclaim.api.plan import Plan
    from reclaim.api.store import GcResult
    from reclaim.run.apply.applied import Applied
    from reclaim.run.plan.plan_document import Lifecycle, Uncommitted
    from reclaim.stores.base import Store

NOTHING = "nothing to collect"
Kind = Literal["collect", "history-only", "uncommitted", "lifecycle"]


def register(app: typer.Typer) -> None:
    command(app, "gc", gc)


def gc(
    session: Session,
    kind: KindOptions,
    rules: RuleOptions,
    planning: PlanningOptions,
    running: RunOptions,
    quarantining: QuarantineOptions,
    limiting: LimitOptions,
    store: Annotated[
        str | None, typer.Argument(metavar="STORE", help=STORE, show_default=False)
    ] = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Every repository, including deleted ones with remaining data; with "
            "SCHEME:LOCATION, every store there.",
            rich_help_panel=LOOK_AT,
        ),
    ] = False,
) -> None:
    """Plan and apply without confirmation, for schedulers.

    Example: reclaim gc --all --max-objects 100000

    With --all, a failure of a store does not stop the others.
    """
    from reclaim.api.gc import StoreOutcome, collect_each
    from reclaim.api.options import Asked
    from reclaim.api.store import OpenStore

    if store is None and not everything:
        raise InvalidInput("give either a STORE or --all")
    if everything and planning.out is not None:
        raise InvalidInput("--out cannot be combined with --all")
    kind_arguments = kind.read(rules, planning, running, quarantining, limiting)
    policy, arguments = rules.read(), planning.read(rules, kind_arguments)
    limits, work = limiting.read(), running.work()
    edit_only = kind.history_only
    opening = session.all_stores(store) if everything else session.named_stores(store)
    with opening as stores:

        def collect_one(opened: Store) -> GcResult:
            return OpenStore(opened, work).gc_with(
                Asked.of(policy, arguments(opened)),
                {} if edit_only else quarantining.arguments(opened, limits),
                among_many=everything,
            )

        if everything:
            with work.begin(local=edit_only) as (_, watch):
                outcomes = collect_each(
                    stores, collect_one, tell=lambda outcome: watch.tell(Result(outcome).line())
                )
        else:
            [named_store] = stores
            opened = named_store.open()
            outcomes = [StoreOutcome(named_store.name, opened, collect_one(opened))]
        results = [Result(outcome) for outcome in outcomes]
        session.output.answer(Results(kind_arguments["kind"], results, several=everything))
    if code := exits.worst(result.exit_code for result in results):
        raise typer.Exit(code)


class ExtentDocument(TypedDict):
    """Extent of an incremental kind of run."""

    mode: Literal["full", "incremental"]
    """incremental if the run started from a checkpoint."""
    why: str
    """Reason for this mode."""
    bytes_read: int
    """Bytes of ranges, of the index and of the checkpoint."""
    ranges_read: int


class UncommittedCollected(ExtentDocument):
    """Extent of a run on uncommitted data."""

    partitions_listed: int
    objects_listed: int


class LifecycleCollected(ExtentDocument):
    """Extent of a run of lifecycle rules."""

    today: Annotated[str, Form(r"^\d{4}-\d\d-\d\d$", "date")]
    """Day in UTC for the ages of data."""
    gone: int
    """Addresses to delete that are already missing."""
    held: int
    """Addresses matched by rules and held by a reference."""


class PlannedDocument(TypedDict):
    """Summary of the plan of a run."""

    plan: str | None
    policy_source: PolicyOrigin | None
    """Null without a plan."""
    warnings: Sequence[str]
    """Notes of the plan, or the reason for no plan."""
    expired: int
    """Reachable snapshots kept by no rule. Some stay: see `held_by`."""
    held_by: Sequence[HolderDocument]
    """Holders of expired snapshots, the largest first."""
    too_young: TooYoungDocument | None
    """Unreferenced objects and snapshots younger than the minimum age."""
    uncommitted: UncommittedCollected | None
    """With --uncommitted."""
    lifecycle: LifecycleCollected | None
    """With --lifecycle."""


class StoreCollected(AppliedDocument, PlannedDocument):
    """Outcome for a store."""

    store: str
    uid: str | None
    """Null if the store could not be opened."""
    deleted: bool
    state: Literal["done", "nothing", "failed"]
    error: ErrorDocument | None
    run: Id | None


class CollectedDocument(TypedDict):
    """Outcome for each store."""

    kind: Kind
    """Requested kind of run."""
    stores: Sequence[StoreCollected]


@dataclass(frozen=True, slots=True)
class Result:
    """Outcome for a store, as a document and in words."""

    outcome: StoreOutcome

    @property
    def exit_code(self) -> int:
        return exits.DONE if self._failure is None else self._failure.exit_code

    def document(self) -> StoreCollected:
        store, failure = self.outcome.store, self._failure
        document: StoreCollected = {
            "store": self.outcome.name if store is None else store.name,
            "uid": None if store is None else store.uid,
            "deleted": store is not None and store.deleted,
            "state": "failed",
            "error": None,
            "plan": None,
            "run": None,
            "policy_source": None,
            "warnings": [],
            "expired": 0,
            "held_by": [],
            "too_young": None,
            "uncommitted": None,
            "lifecycle": None,
            **NOTHING_APPLIED,
        }
        if failure is not None:
            return {**document, **failure.document()}
        done = self._done
        if done.note:
            document["warnings"] = [done.note]
        if done.plan is not None:
            document = {**document, **_planned(done.plan)}
        if done.run is None:
            return {**document, "state": "nothing"}
        return {
            **document,
            **applied_document(self._applied),
            "state": "done",
            "run": done.run.id,
        }

    def line(self) -> str:
        """Describe the outcome in a line."""
        store, failure = self.outcome.store, self._failure
        name = self.outcome.name if store is None else store.name
        if store is not None and store.deleted:
            name = f"{name} ({store.uid}, deleted)"
        if failure is not None:
            hint = f" ({failure.hint})" if failure.hint else ""
            return f"{name}: failed: {failure.message}{hint}"
        done = self._done
        text = (
            self._nothing()
            if done.run is None
            else sentence(self._applied, edit_only=self._edit_only)
        )
        if done.plan is None:
            return f"{name}: {text}"
        document = done.plan.document
        by = " (by its stored policy)" if document.policy_source == STORED else ""
        held = ""
        if document.held_by:
            holders = [held_by.holder for held_by in document.held_by]
            held = f"; {expired(document.expired, holders, document.store.noun).rstrip('.')}"
        if document.lifecycle is not None and (count := document.lifecycle.held_count):
            held = (
                f"; kept {objects(count)} matched by rules but referenced "
                f"(reclaim show {to_show(document, done.plan.place)} --held)"
            )
        return f"{name}: {text}{by}{held}"

    def notes(self) -> Iterator[Block]:
        """Yield details on a single store: warnings, and the command for an undo."""
        done = self._done
        if done.plan is not None:
            for warning in done.plan.document.warnings:
                yield f"Note: {warning}."
        if done.run is not None:
            assert self.outcome.store is not None
            assert done.plan is not None
            yield from ApplyAnswer(self.outcome.store, self._applied, done.plan.document).notes()

    @property
    def _failure(self) -> Failure | None:
        error = self.outcome.error
        return None if error is None else Failure.of(error)

    @property
    def _edit_only(self) -> bool:
        plan = self._done.plan
        return plan is not None and plan.document.history_only is not None

    @property
    def _applied(self) -> Applied:
        run = self._done.run
        assert run is not None
        assert run.applied is not None
        return run.applied

    @property
    def _done(self) -> GcResult:
        assert self.outcome.done is not None
        return self.outcome.done

    def _nothing(self) -> str:
        done = self._done
        if self._edit_only:
            return HISTORY_STAYS
        if done.plan is None or done.plan.document.too_young is None:
            return done.note or NOTHING
        document = done.plan.document
        assert document.too_young is not None
        return f"{NOTHING} yet: {too_young(document.too_young, document.store.noun)}"


def _planned(plan: Plan) -> PlannedDocument:
    """Return the fields of an outcome about its plan."""
    document = plan.document
    young, uncommitted, lifecycle = document.too_young, document.uncommitted, document.lifecycle
    planned: PlannedDocument = {
        "plan": shown(plan.place),
        "policy_source": cast(PolicyOrigin, document.policy_source),
        "warnings": document.warnings,
        "expired": document.expired,
        "held_by": [
            cast(HolderDocument, held_by.model_dump(mode="json")) for held_by in document.held_by
        ],
        "too_young": None if young is None else cast(TooYoungDocument, young.model_dump()),
        "uncommitted": None,
        "lifecycle": None,
    }
    if uncommitted is not None:
        planned["uncommitted"] = {
            **_extent(uncommitted),
            "partitions_listed": uncommitted.partitions_listed,
            "objects_listed": uncommitted.objects_listed,
        }
    if lifecycle is not None:
        planned["lifecycle"] = {
            **_extent(lifecycle),
            "today": lifecycle.today.isoformat(),
            "gone": lifecycle.gone,
            "held": lifecycle.held_count,
        }
    return planned


def _extent(section: Uncommitted | Lifecycle) -> ExtentDocument:
    return {
        "mode": cast(Literal["full", "incremental"], section.mode),
        "why": section.why,
        "bytes_read": section.bytes_read,
        "ranges_read": section.ranges_read,
    }


@dataclass(frozen=True, slots=True)
class Results:
    """Answer with the outcome for each store, after all work."""

    kind: Kind
    results: Sequence[Result]
    several: bool
    """Whether the answer covers several stores; the answer for a single store has more details."""

    def document(self) -> CollectedDocument:
        return {"kind": self.kind, "stores": [result.document() for result in self.results]}

    def view(self) -> Iterator[Block]:
        for result in self.results:
            yield result.line()
            if not self.several:
                yield from result.notes()
        if not self.results:
            yield "There is no store."
