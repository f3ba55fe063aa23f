"""``reclaim lifecycle run``: find what the rules of a repository match, and delete it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from reclaim.cli.commands.apply import ApplyAnswer
from reclaim.cli.options.found_plan import shown
from reclaim.cli.options.limits import LimitOptions
from reclaim.cli.options.plan_bounds import PlanBounds
from reclaim.cli.options.quarantining import QuarantineOptions
from reclaim.cli.options.rules import RuleOptions
from reclaim.cli.running import RunOptions
from reclaim.cli.session import Session
from reclaim.cli.views.describe import objects
from reclaim.cli.views.documents import ApplyDocument, Form
from reclaim.cli.views.output import Block
from reclaim.cli.views.plan_view import Summary

if TYPE_CHECKING:
    from reclaim.run.apply.applied import Applied
    from reclaim.run.plan.planning import Plan


@dataclass(frozen=True, slots=True)
class LifecycleRunOptions:
    """Options of a run of lifecycle rules."""

    plan: Annotated[
        bool, typer.Option("--plan", help="Only write the plan, to be reviewed and applied.")
    ] = False
    full: Annotated[
        bool,
        typer.Option("--full", help="Read everything again; it decides the same as without."),
    ] = False


def run(
    session: Session,
    repository: Annotated[
        str, typer.Argument(metavar="REPO", help="A repository.", show_default=False)
    ],
    options: LifecycleRunOptions,
    bounds: PlanBounds,
    running: RunOptions,
    quarantining: QuarantineOptions,
    limiting: LimitOptions,
) -> None:
    """Delete the data that the lifecycle rules of a repository match, without asking.

    An address goes only if every path that refers to it, on every branch, is matched. Tags, leases
    and staged entries hold what they reach.
    """
    from reclaim.run.lifecycle.running import plan_stored_rules, run_lifecycle

    find = bounds.planning().read(RuleOptions(no_policy=True))
    limits = limiting.read()
    with session.stores(repository) as [store], running.watched() as watcher:
        removal = quarantining.removal(store)
        engine = running.engine(watcher)
        wanted = find(store)
        if options.plan:
            made = plan_stored_rules(store, engine, wanted, full=options.full, watcher=watcher)
            answer: Summary | LifecycleAnswer = Summary(
                made.place, made.document, made.not_recorded
            )
        else:
            done = run_lifecycle(
                store,
                engine,
                wanted,
                full=options.full,
                removal=removal,
                limits=limits,
                watcher=watcher,
            )
            assert done.plan is not None
            assert done.applied is not None
            answer = LifecycleAnswer(store.name, done.plan, done.applied)
    session.output.answer(answer)


LifecycleMode = Literal["full", "incremental"]


class LifecycleApplied(ApplyDocument):
    """Without --plan: what the run did."""

    today: Annotated[str, Form(r"^\d{4}-\d\d-\d\d$", "date")]
    """The day of UTC that dates are counted from."""
    mode: LifecycleMode
    """Which run it is."""
    why: str
    """Why it is that one."""
    bytes_read: int
    """Bytes of metaranges, of ranges, of the index and of the checkpoint."""
    ranges_read: int
    """Ranges that were read."""
    gone: int
    """Addresses that would go and are not there any more."""
    held: int
    """How many addresses are held."""
    warnings: Sequence[str]
    """Notes of the plan."""


@dataclass(frozen=True, slots=True)
class LifecycleAnswer:
    """The answer that says what a run did."""

    store: str
    plan: Plan
    applied: Applied

    def document(self) -> LifecycleApplied:
        section = self.plan.document.lifecycle
        assert section is not None
        return {
            **ApplyAnswer(self.store, self.applied).document(),
            "today": section.today.isoformat(),
            "mode": cast(LifecycleMode, section.mode),
            "why": section.why,
            "bytes_read": section.bytes_read,
            "ranges_read": section.ranges_read,
            "gone": section.gone,
            "held": section.held_count,
            "warnings": list(self.plan.document.warnings),
        }

    def view(self) -> Iterator[Block]:
        section = self.plan.document.lifecycle
        assert section is not None
        yield from ApplyAnswer(self.store, self.applied).view()
        if section.held_count:
            stay = "stays" if section.held_count == 1 else "stay"
            yield (
                f"{objects(section.held_count)} that rules match {stay}, because something holds "
                f"them. See by what with: reclaim show {shown(self.plan.place)} --held"
            )
        for warning in self.plan.document.warnings:
            yield f"Note: {warning}."
