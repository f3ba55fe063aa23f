"""``reclaim apply``: do what a plan says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, cast

import typer

from reclaim.cli.command import YesOption, command
from reclaim.cli.options.found_plan import (
    PlanArgument,
    PlanStoreOption,
    open_to_apply,
    shown,
    to_show,
)
from reclaim.cli.options.kinds import HISTORY_ONLY, flag, given_options
from reclaim.cli.options.limits import LimitOptions
from reclaim.cli.options.missing import MissingOption
from reclaim.cli.options.panels import KEEP, SAFETY
from reclaim.cli.options.quarantining import QuarantineOptions
from reclaim.cli.options.store_names import store_option
from reclaim.cli.running import RunOptions
from reclaim.cli.session import Session
from reclaim.cli.views.describe import expired, history_edit, instant, objects, snapshots
from reclaim.cli.views.documents import AppliedDocument, ApplyDocument
from reclaim.cli.views.output import Block
from reclaim.cli.views.plan_history import read_history
from reclaim.errors import InvalidInput
from reclaim.ids import short
from reclaim.text import size

if TYPE_CHECKING:
    from reclaim.run.apply.applied import Applied
    from reclaim.run.apply.finished_plan import FinishedPlan
    from reclaim.run.plan.plan_document import PlanDocument
    from reclaim.stores.base import Store


def register(app: typer.Typer) -> None:
    command(app, "apply", apply)


def apply(
    session: Session,
    plan: PlanArgument,
    running: RunOptions,
    quarantining: QuarantineOptions,
    limiting: LimitOptions,
    store: PlanStoreOption = None,
    digest: Annotated[
        str | None,
        typer.Option(
            metavar="SHA256",
            help="The digest that `plan` printed, or its first 16 digits. "
            "Any other plan is refused.",
            show_default=False,
            rich_help_panel=SAFETY,
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GLOB",
            help="Leave out objects whose address or path matches, such as 'raw/*'; repeatable.",
            show_default=False,
            rich_help_panel=KEEP,
        ),
    ] = None,
    unsafe_allow_missing_layers: MissingOption = False,
    yes: YesOption = False,
) -> None:
    """Delete the objects in a plan that are still unreferenced.

    Example: reclaim apply latest

    Objects that are referenced again stay. A plan of --history-only edits the history, and deletes
    nothing. Safe to run again after an interruption.
    """
    from reclaim.api.options import ApplyArguments, limits_of
    from reclaim.api.plan import Plan
    from reclaim.api.store import OpenStore
    from reclaim.globs import check_globs
    from reclaim.run.apply.trust import check_digest

    if digest is not None:
        check_digest(digest)
    globs = check_globs(exclude or ())
    limits = limiting.read()
    with open_to_apply(session, plan, store) as (found, opened):
        document = found.document
        edit_only = document.history_only is not None
        if edit_only:
            for group in (quarantining, limiting):
                for option in given_options(group):
                    raise InvalidInput(f"{flag(option)} does not go with a plan of {HISTORY_ONLY}")
            if globs:
                raise InvalidInput(f"--exclude does not go with a plan of {HISTORY_ONLY}")
        review = f"reclaim show {to_show(document, found.place)}"
        limits_of(limits).check(document, hint=f"nothing was changed; review it: {review}")
        arguments = ApplyArguments() if edit_only else quarantining.arguments(opened, limits)
        quarantined = bool(not edit_only and quarantining.removal(opened).name)

        def confirm() -> None:
            action = _action(document, opened.name, globs, quarantined=quarantined)
            session.confirm(action, yes=yes)

        run = Plan(found, OpenStore(opened, running.work())).apply(
            digest=digest,
            exclude=globs,
            unsafe_allow_missing_layers=unsafe_allow_missing_layers,
            before_change=confirm,
            **arguments,
        )
        if run.settled is not None:
            session.output.answer(SettledAnswer(opened, run.settled, document))
            return
        assert run.applied is not None
        session.output.answer(ApplyAnswer(opened, run.applied, document))


def _action(document: PlanDocument, name: str, globs: Sequence[str], *, quarantined: bool) -> str:
    """The change that an apply of a plan makes, for the question before it.

    ``name`` is that of the store: the plan may claim any.
    """
    if document.history_only is not None:
        return f"edit the history of {name}, without deleting anything,"
    what = f"{objects(document.candidates)} ({size(document.candidate_bytes)}) of {name}"
    if globs:
        what = f"{what}, without those that match {' or '.join(globs)},"
    action = f"move {what} to quarantine" if quarantined else f"delete {what} for good"
    if document.edits_history:
        action += " and edit the history as the plan says"
    return action


@dataclass(frozen=True, slots=True)
class ApplyAnswer:
    """The answer that says what an apply did."""

    store: Store
    applied: Applied
    planned: PlanDocument

    def document(self) -> ApplyDocument:
        done = self.applied
        return {
            "run": done.run,
            "plan": shown(done.place),
            "store": self.store.name,
            "already_applied": False,
            "finished_at": None,
            **applied_document(done),
        }

    def view(self) -> Iterator[Block]:
        said = sentence(self.applied, edit_only=self.planned.history_only is not None)
        yield f"{self.store.name}: {said}."
        yield from self.notes()

    def notes(self) -> Iterator[Block]:
        """All that one line does not say."""
        if self.planned.history_only is not None:
            yield from self._edit_notes()
            return
        option = store_option(self.store.kind, self.store.uid)
        undo = f"reclaim undo {short(self.applied.run)}{option}"
        if compared := self.applied.summary().get("compared"):
            yield f"Note: {compared}."
        if self.applied.dropped:
            yield (
                f"Skipped {objects(self.applied.dropped)} of the plan: referenced again, "
                "or removed already."
            )
        if (left_out := self.applied.left_out).globs:
            yield (
                f"Left out {objects(left_out.objects)} ({size(left_out.size)}) that match "
                f"{' or '.join(left_out.globs)}: they stay, and a later plan can list them again. "
                f"They are listed in {left_out.place}."
            )
        noun = self.applied.noun
        if spared := self.applied.spared:
            yield (
                f"{snapshots(spared, noun)} of the plan stay: the store's own library left them in "
                "the history, or something names them again."
            )
        if unplanned := self.applied.unplanned:
            yield (
                f"The store's own library took {snapshots(unplanned, noun)} out of the history "
                "that the plan does not name. They stay, with all that they need, until a later "
                "plan names them."
            )
        if self.applied.edit.released > self.applied.condemned and not self.applied.until:
            yield f"Take the history edit back with: {undo}"
        if until := self.applied.until:
            yield (
                f"No space is freed until they are purged, possible from {instant(until)} UTC. "
                f"{requests(self.applied)}Undo it with: {undo}"
            )

    def _edit_notes(self) -> Iterator[Block]:
        """The commits that left the history, the reasons of those that stay, and the way back."""
        from reclaim.run.plan.plan_location import LocatedPlan
        from reclaim.stores.abilities import ExpiresItself

        yield from read_history(LocatedPlan.at(self.applied.place, self.planned)).view()
        noun = self.applied.noun
        yield expired(self.planned.expired, [one.holder for one in self.planned.held_by], noun)
        if not self.applied.edit:
            return
        is_final = isinstance(self.store, ExpiresItself) and bool(self.store.irreversible())
        if is_final and self.planned.library_edit is not None:
            yield (
                "No bytes were deleted. The store's own library edited the history, which cannot "
                "be taken back; until they are collected, a branch or a tag can be made at the "
                f"{noun}s."
            )
        else:
            option = store_option(self.store.kind, self.store.uid)
            yield (
                "No bytes were deleted. To take it back: "
                f"reclaim undo {short(self.applied.run)}{option}"
            )


@dataclass(frozen=True, slots=True)
class SettledAnswer:
    """The answer for a plan that left nothing to do."""

    store: Store
    settled: FinishedPlan
    planned: PlanDocument

    def document(self) -> ApplyDocument:
        return {
            **ApplyAnswer(self.store, self.settled.applied, self.planned).document(),
            "already_applied": self.settled.before,
            "finished_at": self.settled.finished_at,
        }

    def view(self) -> Iterator[Block]:
        settled = self.settled
        if not settled.before:
            yield f"{self.store.name}: the plan is empty; nothing was changed."
            return
        edit_only = self.planned.history_only is not None
        when = f" at {instant(settled.finished_at)} UTC" if settled.finished_at else ""
        run, said = short(settled.applied.run), sentence(settled.applied, edit_only=edit_only)
        yield (
            f"{self.store.name}: the plan was already applied by run {run}{when}, which {said}. "
            "Nothing was changed now."
        )


HISTORY_STAYS = "the history stays as it is"
NOTHING_APPLIED: AppliedDocument = {
    "until": None,
    "compared": None,
    "unplanned": 0,
    "spared": 0,
    "objects": 0,
    "bytes": 0,
    "failed": 0,
    "missing": 0,
    "dropped": 0,
    "condemned": 0,
    "collected": 0,
    "reparented": 0,
    "released": 0,
    "deleted_refs": [],
    "exclude": [],
    "excluded": 0,
    "excluded_bytes": 0,
    "excluded_list": "",
}
"""The summary of an apply that did nothing: a program finds every field, whatever was done."""


def applied_document(applied: Applied) -> AppliedDocument:
    """The summary of an apply with all its fields."""
    return cast(AppliedDocument, {**NOTHING_APPLIED, **applied.summary()})


def sentence(applied: Applied, *, edit_only: bool = False) -> str:
    """The summary of an apply, in a few words; ``edit_only`` of one that deletes nothing."""
    if edit_only:
        return history_edit(applied.edit, applied.noun) or HISTORY_STAYS
    done = applied.summary()
    what = f"{objects(done['objects'])} ({size(done['bytes'])})"
    said = f"moved {what} to quarantine" if applied.until else f"deleted {what}"
    if done["failed"]:
        said += f", failed on {done['failed']}"
    if applied.by_lifecycle_rules:
        return said
    waiting = max(0, done["condemned"] - done["collected"])
    said += f" and removed {snapshots(done['collected'] + waiting, applied.noun)}"
    if waiting:
        said += f" (the objects of {waiting} go later)"
    edit = history_edit(applied.edit, applied.noun)
    return f"{said}; {edit}" if edit else said


def requests(applied: Applied) -> str:
    """The cost of a quarantine beside space, where requests are paid for."""
    if not applied.requests:
        return ""
    return f"It took {applied.requests} requests, and bringing them back takes as many. "
