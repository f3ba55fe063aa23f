"""``reclaim gc``: plan and apply in one go, for a scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict, cast

import typer

from reclaim.cli.command import command
from reclaim.cli.commands.apply import NOTHING_APPLIED, applied_document, sentence
from reclaim.cli.options.found_plan import shown
from reclaim.cli.options.limits import LimitOptions
from reclaim.cli.options.plan_options import PlanningOptions
from reclaim.cli.options.quarantining import QuarantineOptions
from reclaim.cli.options.rules import RuleOptions
from reclaim.cli.options.store_names import STORE
from reclaim.cli.running import RunOptions
from reclaim.cli.session import Session
from reclaim.cli.views import exits
from reclaim.cli.views.describe import expired
from reclaim.cli.views.documents import (
    AppliedDocument,
    ErrorDocument,
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
    from reclaim.run.gc import Collected
    from reclaim.run.lifecycle.collecting import CollectedByRules
    from reclaim.stores.base import Store

NOTHING = "nothing to collect"
NO_RULE_ENABLED = "no lifecycle rule is enabled"


def register(app: typer.Typer) -> None:
    command(app, "gc", gc)


def gc(
    session: Session,
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
            help="Every repository, and what deleted ones left; with SCHEME:LOCATION every store "
            "there.",
        ),
    ] = False,
    lifecycle: Annotated[
        bool,
        typer.Option(
            "--lifecycle",
            help="Then take what the stored lifecycle rules match; data is read once for both. "
            "With --all where a rule is enabled.",
        ),
    ] = False,
) -> None:
    """Plan and apply in one go, without asking. With --all a failure of one stops no other."""
    from reclaim.run.gc import collect
    from reclaim.run.lifecycle.collecting import (
        collect_by_rules,
        has_enabled_rule,
        has_rules,
    )

    if store is None and not everything:
        raise InvalidInput("give either a STORE or --all")
    if everything and planning.out is not None:
        raise InvalidInput("--out cannot be combined with --all")
    options = planning.read(rules)
    limits = limiting.read()
    found_stores = session.all_stores(store) if everything else session.named_stores(store)
    with found_stores as stores, running.watched() as watcher:
        engine = running.engine(watcher)

        def results() -> Iterator[Result]:
            for named in stores:
                opened: Store | None = None
                try:
                    opened = named.open()
                    removal, wanted = quarantining.removal(opened), options(opened)
                    if lifecycle and (not everything or has_enabled_rule(opened)):
                        both = collect_by_rules(
                            opened, engine, wanted, removal=removal, limits=limits, watcher=watcher
                        )
                        yield Result(named.name, opened, both.collected, by_rules=both)
                        continue
                    done = collect(
                        opened, engine, wanted, removal=removal, limits=limits, watcher=watcher
                    )
                    disabled = lifecycle and has_rules(opened)
                    yield Result(named.name, opened, done, rules_disabled=disabled)
                except Exception as error:
                    if not everything:
                        raise
                    yield Result(named.name, opened, failure=Failure.of(error))

        answer = Results(results())
        session.output.answer(answer)
    if code := exits.worst(answer.codes):
        raise typer.Exit(code)


class RulesCollected(AppliedDocument):
    """What lifecycle rules took."""

    run: Id
    plan: str
    held: int
    """Addresses that rules match and something holds."""


class StoreCollected(AppliedDocument):
    """The outcome for one store."""

    store: str
    uid: str | None
    """Null if the store could not be opened."""
    deleted: bool
    state: Literal["done", "nothing", "failed"]
    error: ErrorDocument | None
    plan: str | None
    run: Id | None
    policy_source: PolicyOrigin | None
    """Null if there was no plan."""
    warnings: Sequence[str]
    """Notes of the plan."""
    expired: int
    """Snapshots that a branch or a tag reaches and no rule keeps. Some stay: see `held_by`."""
    held_by: Sequence[HolderDocument]
    """The holders of expired snapshots that stay, the largest first."""
    too_young: TooYoungDocument | None
    """What nothing refers to and is younger than the margin."""
    lifecycle: RulesCollected | None
    """With --lifecycle: what lifecycle rules took."""


class CollectedDocument(TypedDict):
    """The outcome for each store."""

    stores: Sequence[StoreCollected]


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome for one store; None in its place if it could not be opened."""

    name: str
    store: Store | None
    done: Collected | None = None
    failure: Failure | None = None
    by_rules: CollectedByRules | None = None
    """With what lifecycle rules took, if that was asked for."""
    rules_disabled: bool = False
    """Whether that was asked for and every stored rule is disabled."""

    def document(self) -> StoreCollected:
        store = self.store
        document: StoreCollected = {
            "store": self.name if store is None else store.name,
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
            "lifecycle": self._lifecycle(),
            **NOTHING_APPLIED,
        }
        if self.failure is not None:
            return {**document, **self.failure.document()}
        assert self.done is not None
        plan, applied = self.done.plan, self.done.applied
        disabled = [NO_RULE_ENABLED] if self.rules_disabled else []
        document["warnings"] = disabled
        if plan is not None:
            document["plan"] = shown(plan.place)
            document["policy_source"] = cast(PolicyOrigin, plan.document.policy_source)
            document["warnings"] = [*plan.document.warnings, *disabled]
            document["expired"] = plan.document.expired
            document["held_by"] = [
                cast(HolderDocument, one.model_dump(mode="json")) for one in plan.document.held_by
            ]
            young = plan.document.too_young
            if young is not None:
                document["too_young"] = {
                    "objects": young.objects,
                    "bytes": young.bytes,
                    "snapshots": young.snapshots,
                    "first_at": young.first_at,
                    "all_at": young.all_at,
                }
        if applied is None:
            document["state"] = "nothing"
            return document
        return {**document, **applied_document(applied), "state": "done", "run": applied.run}

    def line(self) -> str:
        name = self.name if self.store is None else self.store.name
        if self.store is not None and self.store.deleted:
            name = f"{name} ({self.store.uid}, deleted)"
        if self.failure is not None:
            hint = f" ({self.failure.hint})" if self.failure.hint else ""
            return f"{name}: failed: {self.failure.message}{hint}"
        assert self.done is not None
        plan, applied = self.done.plan, self.done.applied
        stored = plan is not None and plan.document.policy_source == STORED
        by = " (by its stored policy)" if stored else ""
        said = self._nothing() if applied is None else sentence(applied)
        document = None if plan is None else plan.document
        held = ""
        if document is not None and document.held_by:
            holders = [one.holder for one in document.held_by]
            held = f"; {expired(document.expired, holders, document.store.noun).rstrip('.')}"
        rules = f"; {NO_RULE_ENABLED}" if self.rules_disabled else ""
        if self.by_rules is not None:
            rules = f"; by lifecycle rules: {sentence(self.by_rules.applied)}"
        return f"{name}: {said}{by}{held}{rules}"

    def _lifecycle(self) -> RulesCollected | None:
        if self.by_rules is None:
            return None
        section = self.by_rules.plan.document.lifecycle
        assert section is not None
        return {
            "run": self.by_rules.applied.run,
            "plan": shown(self.by_rules.plan.place),
            "held": section.held_count,
            **applied_document(self.by_rules.applied),
        }

    def _nothing(self) -> str:
        assert self.done is not None
        plan = self.done.plan
        if plan is None or plan.document.too_young is None:
            return NOTHING
        return f"{NOTHING} yet: {too_young(plan.document.too_young, plan.document.store.noun)}"


@dataclass(frozen=True, slots=True)
class Results:
    """The answer: each store as it is done."""

    results: Iterator[Result]
    codes: list[int] = field(default_factory=list)

    def document(self) -> CollectedDocument:
        return {"stores": [result.document() for result in self._each()]}

    def view(self) -> Iterator[Block]:
        for result in self._each():
            yield result.line()
        if not self.codes:
            yield "There is no store."

    def _each(self) -> Iterator[Result]:
        for result in self.results:
            self.codes.append(result.failure.exit_code if result.failure else exits.DONE)
            yield result
