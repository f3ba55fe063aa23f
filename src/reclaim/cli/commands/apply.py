"""``reclaim apply``: do what a plan says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, cast

import typer

from reclaim.cli.command import YesOption, command
from reclaim.cli.options.found_plan import PlanArgument, find_plan, shown
from reclaim.cli.options.limits import LimitOptions
from reclaim.cli.options.missing import MissingOption, allow_missing
from reclaim.cli.options.panels import KEEP, LOOK_AT, SAFETY
from reclaim.cli.options.quarantining import QuarantineOptions
from reclaim.cli.options.store_names import store_option
from reclaim.cli.running import RunOptions
from reclaim.cli.session import Session
from reclaim.cli.views.describe import history_edit, instant, objects, size, snapshots
from reclaim.cli.views.documents import AppliedDocument, ApplyDocument
from reclaim.cli.views.output import Block

if TYPE_CHECKING:
    from reclaim.run.apply.applied import Applied
    from reclaim.run.apply.finished_plan import FinishedPlan


def register(app: typer.Typer) -> None:
    command(app, "apply", apply)


def apply(
    session: Session,
    plan: PlanArgument,
    running: RunOptions,
    quarantining: QuarantineOptions,
    limiting: LimitOptions,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="STORE",
            help="The store that the plan is for. Needed for one that is not of the catalog."
            " Write it as SCHEME:LOCATION.",
            show_default=False,
            rich_help_panel=LOOK_AT,
        ),
    ] = None,
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
    """Delete the objects in a plan, skipping any that are referenced again. Safe to run again.

    The plan decides what kind of run it is; a plan of history alone deletes no bytes.
    """
    from reclaim.globs import check_globs
    from reclaim.run.apply.apply_plan import apply_plan
    from reclaim.run.apply.finished_plan import settle_plan
    from reclaim.run.apply.trust import check_digest

    asked = None if digest is None else check_digest(digest)
    globs = check_globs(exclude or ())
    limits = limiting.read()
    place, document = find_plan(plan)
    limits.check(document, hint=f"nothing was changed; review it: reclaim show {shown(place)}")
    named = document.store
    with session.planned(store, named.kind, named.name, named.uid) as opened:
        what = f"{objects(document.candidates)} ({size(document.candidate_bytes)})"
        allow_missing(opened, asked=unsafe_allow_missing_layers)
        removal = quarantining.removal(opened)
        settled = settle_plan(opened, place, document, digest=asked, removal=removal, exclude=globs)
        if settled is not None:
            session.output.answer(SettledAnswer(opened.name, settled))
            return
        # Its own name: the plan may claim any.
        what = f"{what} of {opened.name}"
        if globs:
            what = f"{what}, without those that match {' or '.join(globs)},"
        action = f"move {what} to quarantine" if removal.name else f"delete {what} for good"
        if document.edits_history:
            action += " and edit the history as the plan says"
        session.confirm(action, yes=yes)
        with running.watched() as watcher:
            done = apply_plan(
                opened,
                running.engine(watcher),
                place,
                planned=document,
                digest=asked,
                removal=removal,
                exclude=globs,
                limits=limits,
                watcher=watcher,
            )
    session.output.answer(ApplyAnswer(opened.name, done, store_option(named.kind, named.uid)))


@dataclass(frozen=True, slots=True)
class ApplyAnswer:
    """The answer that says what an apply did."""

    store: str
    applied: Applied
    undo: str = ""
    """The option by which `reclaim undo` finds the store."""

    def document(self) -> ApplyDocument:
        done = self.applied
        return {
            "run": done.run,
            "plan": shown(done.place),
            "store": self.store,
            "already_applied": False,
            "finished_at": None,
            **applied_document(done),
        }

    def view(self) -> Iterator[Block]:
        yield f"{self.store}: {sentence(self.applied)}."
        yield from self.notes()

    def notes(self) -> Iterator[str]:
        """All that one line does not say."""
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
            yield f"Take the history edit back with: reclaim undo {self.applied.run}{self.undo}"
        if until := self.applied.until:
            yield (
                f"No space is freed until they are purged, possible from {instant(until)} UTC. "
                f"{requests(self.applied)}Undo it with: reclaim undo {self.applied.run}{self.undo}"
            )


@dataclass(frozen=True, slots=True)
class SettledAnswer:
    """The answer for a plan that left nothing to do."""

    store: str
    settled: FinishedPlan

    def document(self) -> ApplyDocument:
        return {
            **ApplyAnswer(self.store, self.settled.applied).document(),
            "already_applied": self.settled.before,
            "finished_at": self.settled.finished_at,
        }

    def view(self) -> Iterator[Block]:
        settled = self.settled
        if not settled.before:
            yield f"{self.store}: the plan is empty; nothing was changed."
            return
        when = f" at {instant(settled.finished_at)} UTC" if settled.finished_at else ""
        yield (
            f"{self.store}: the plan was already applied by run {settled.applied.run}{when}, which "
            f"{sentence(settled.applied)}. Nothing was changed now."
        )


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


def sentence(applied: Applied) -> str:
    """The summary of an apply, in a few words."""
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
