"""``reclaim apply``: apply a plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, cast

import typer

from reclaim.cli.command import YesOption, command
from reclaim.cli.options.kinds import HISTORY_ONLY, flag, given_options
from reclaim.cli.options.limits import LimitOptions
from reclaim.cli.options.missing_layers import MissingOption
from reclaim.cli.options.panels import KEEP, SAFETY
from reclaim.cli.options.plan_argument import (
    PlanArgument,
    PlanStoreOption,
    open_to_apply,
    shown,
    to_show,
)
from reclaim.cli.options.quarantining import QuarantineOptions
from reclaim.cli.options.run_names import LATEST
from reclaim.cli.options.store_names import store_option
from reclaim.cli.running import RunOptions
from reclaim.cli.session import Session
from reclaim.cli.views.describe import expired, history_edit, instant, objects, snapshots
from reclaim.cli.views.documents import AppliedDocument, ApplyDocument
from reclaim.cli.views.output import Block
from reclaim.cli.views.plan_history import read_history
from reclaim.errors import InvalidInput, Refused
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
            help="The digest of the plan, or its first 16 digits. Any other plan is refused.",
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

    Objects that are referenced again stay. A plan of --history-only edits the history and deletes
    nothing. Safe to run again after an interruption.
    """
    from reclaim.api.options import ApplyArguments, limits_of
    from reclaim.api.plan import Plan
    from reclaim.api.store import OpenStore
    from reclaim.globs import check_globs
    from reclaim.run.apply.trust import check_digest

    if digest is not None:
        check_digest(digest)
    elif plan == LATEST and yes:
        raise Refused(
            "apply latest needs confirmation: another plan may be the latest by now",
            hint="give the id of the plan, or its digest (--digest)",
        )
    globs = check_globs(exclude or ())
    limits = limiting.read()
    with open_to_apply(session, plan, store) as (located, opened):
        document = located.document
        edit_only = document.history_only is not None
        if edit_only:
            for group in (quarantining, limiting):
                for option in given_options(group):
                    raise InvalidInput(f"{flag(option)} is not valid for a {HISTORY_ONLY} plan")
            if globs:
                raise InvalidInput(f"--exclude is not valid for a {HISTORY_ONLY} plan")
        review = f"reclaim show {to_show(document, located.place)}"
        limits_of(limits).check(document, hint=f"nothing was changed; review it: {review}")
        arguments = ApplyArguments() if edit_only else quarantining.arguments(opened, limits)
        quarantined = bool(not edit_only and quarantining.removal(opened).name)

        def confirm() -> None:
            action = _action(document, opened.name, globs, quarantined=quarantined)
            session.confirm(action, yes=yes)

        run = Plan(located, OpenStore(opened, running.work())).apply(
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
    """Describe the change of an apply, for the confirmation.

    ``name`` is the name of the opened store; the name in the plan is not trusted.
    """
    if document.history_only is not None:
        return f"edit the history of {name}, without deleting anything,"
    target = f"{objects(document.candidates)} ({size(document.candidate_bytes)}) of {name}"
    if globs:
        target = f"{target}, except objects matching {' or '.join(globs)},"
    action = f"move {target} to quarantine" if quarantined else f"delete {target} for good"
    if document.edits_history:
        action += " and edit the history as planned"
    return action


@dataclass(frozen=True, slots=True)
class ApplyAnswer:
    """Answer with the result of an apply."""

    store: Store
    applied: Applied
    planned: PlanDocument

    def document(self) -> ApplyDocument:
        applied = self.applied
        return {
            "run": applied.run,
            "plan": shown(applied.place),
            "store": self.store.name,
            "already_applied": False,
            "finished_at": None,
            **applied_document(applied),
        }

    def view(self) -> Iterator[Block]:
        said = sentence(self.applied, edit_only=self.planned.history_only is not None)
        yield f"{self.store.name}: {said}."
        yield from self.notes()

    def notes(self) -> Iterator[Block]:
        """Yield details after the first line."""
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
                "the history, or they are referenced again."
            )
        if unplanned := self.applied.unplanned:
            yield (
                f"The store's own library removed {snapshots(unplanned, noun)} from the history "
                "beyond the plan. They stay, with all their objects, until a later plan lists them."
            )
        if self.applied.edit.released > self.applied.condemned and not self.applied.until:
            yield f"To undo the history edit: {undo}"
        if until := self.applied.until:
            yield (
                f"No space is freed until they are purged, possible from {instant(until)} UTC. "
                f"{requests(self.applied)}Undo it with: {undo}"
            )

    def _edit_notes(self) -> Iterator[Block]:
        """Yield the removed commits, the reasons of kept commits, and the command for an undo."""
        from reclaim.run.plan.plan_location import LocatedPlan
        from reclaim.stores.abilities import ExpiresItself

        yield from read_history(LocatedPlan.at(self.applied.place, self.planned)).view()
        noun = self.applied.noun
        yield expired(self.planned.expired, [held.holder for held in self.planned.held_by], noun)
        if not self.applied.edit:
            return
        is_final = isinstance(self.store, ExpiresItself) and bool(self.store.irreversible())
        if is_final and self.planned.library_edit is not None:
            yield (
                "No bytes were deleted. The store's own library edited the history, which cannot "
                "be undone; until they are collected, branches and tags can be made at the "
                f"{noun}s."
            )
        else:
            option = store_option(self.store.kind, self.store.uid)
            yield (
                "No bytes were deleted. To undo the edit: "
                f"reclaim undo {short(self.applied.run)}{option}"
            )


@dataclass(frozen=True, slots=True)
class SettledAnswer:
    """Answer for a plan with nothing to do."""

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
"""Summary of an apply without changes. Programs find every field in each answer."""


def applied_document(applied: Applied) -> AppliedDocument:
    """Return the summary of an apply with all its fields."""
    return cast(AppliedDocument, {**NOTHING_APPLIED, **applied.summary()})


def sentence(applied: Applied, *, edit_only: bool = False) -> str:
    """Describe the result of an apply; ``edit_only`` if it only edits the history."""
    if edit_only:
        return history_edit(applied.edit, applied.noun) or HISTORY_STAYS
    summary = applied.summary()
    amount = f"{objects(summary['objects'])} ({size(summary['bytes'])})"
    text = f"moved {amount} to quarantine" if applied.until else f"deleted {amount}"
    if summary["failed"]:
        text += f", failed on {summary['failed']}"
    if applied.by_lifecycle_rules:
        return text
    waiting = max(0, summary["condemned"] - summary["collected"])
    text += f" and removed {snapshots(summary['collected'] + waiting, applied.noun)}"
    if waiting:
        text += f" (the objects of {waiting} go later)"
    edit = history_edit(applied.edit, applied.noun)
    return f"{text}; {edit}" if edit else text


def requests(applied: Applied) -> str:
    """Describe the cost of a quarantine in requests, in stores with billed requests."""
    if not applied.requests:
        return ""
    return f"It took {applied.requests} requests, and an undo takes as many. "
