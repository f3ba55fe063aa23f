"""``reclaim expire``: take old snapshots out of history, by rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reclaim.cli.command import command
from reclaim.cli.describe import SHORT, commits
from reclaim.cli.output import Block, Table
from reclaim.cli.places import parse_repository
from reclaim.cli.repo import RepositoryArgument
from reclaim.cli.rules import RuleOptions
from reclaim.cli.session import Session

if TYPE_CHECKING:
    from reclaim.model import Run
    from reclaim.run.expire import ExpirePlan

SHOWN = 50
"""How many decisions people are shown; ``--json`` has them all."""


def register(app: typer.Typer) -> None:
    command(app, "expire", expire)


@dataclass(frozen=True, slots=True)
class Expired:
    """The answer: every decision, and what was or would be edited."""

    plan: ExpirePlan
    run: Run | None
    only_planned: bool

    def document(self) -> Mapping[str, Any]:
        edit = self.plan.edit
        return {
            "run": self.run.id if self.run else None,
            "applied": self.run is not None,
            "decisions": [
                {"commit": decision.id, "kept": decision.kept, "reasons": list(decision.reasons)}
                for decision in self.plan.reached()
            ],
            "reparented": {commit: list(new) for commit, new in edit.reparent.items()},
            "released": list(self.plan.released()),
            "expired_tips": [ref.name for ref in edit.expired_tips],
            "deleted_refs": [ref.name for ref in edit.delete_refs],
            "touched_bases": [base.branch for base in edit.touched_bases],
        }

    def view(self) -> Iterator[Block]:
        edit = self.plan.edit
        decisions = list(self.plan.reached())
        rows = (
            (
                decision.id[:SHORT],
                "kept" if decision.kept else "expired",
                "; ".join(decision.reasons),
            )
            for decision in decisions[:SHOWN]
        )
        yield Table(("commit", "decision", "why"), rows)
        if len(decisions) > SHOWN:
            yield f"(and {len(decisions) - SHOWN} more; --json shows them all)"
        kept = sum(decision.kept for decision in decisions)
        verb = "would get" if self.only_planned else "got"
        yield f"Of {commits(len(decisions))}, {kept} stay and {len(decisions) - kept} expire."
        if edit.empty:
            yield "History stays as it is."
        else:
            released = len(self.plan.released())
            yield f"{commits(len(edit.reparent))} {verb} other parents."
            reached = "would be" if self.only_planned else "will be"
            yield f"{commits(released)} {reached} unreachable."
        for ref in edit.delete_refs:
            gone = "would be deleted" if self.only_planned else "was deleted"
            yield f"The {ref.kind} {ref.name} {gone}: its commit is expired."
        for ref in edit.expired_tips:
            if ref not in edit.delete_refs:
                yield f"The {ref.kind} {ref.name} is at an expired commit, and stays with it."
        reports = "would report" if self.only_planned else "will report"
        for base in edit.touched_bases:
            yield (
                f"Merging {base.branch} with the default branch {reports} every differing path as "
                "a conflict, because history around their merge base is edited."
            )
        if self.run is not None:
            yield f"No bytes were deleted. To take it back: reclaim undo {self.run.id}"


def expire(
    session: Session,
    repository: RepositoryArgument,
    rules: RuleOptions,
    ref: Annotated[
        list[str] | None,
        typer.Option("--ref", metavar="REF", help="Edit only what this reaches; repeatable."),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show it and change nothing.")] = False,
) -> None:
    """Take snapshots out of history by rules. Deletes no bytes, so it does not ask."""
    from reclaim.run.expire import apply_expire, plan_expire

    policy = rules.read()
    with session.open() as catalog:
        repo = catalog.repository(parse_repository(repository))
        if not plan:
            # An edit that a run left which died is not planned from.
            repo.release_left_over()
        planned = plan_expire(
            repo,
            policy,
            refs=ref or (),
            delete_expired_tags=rules.delete_expired_tags,
            delete_expired_branches=rules.delete_expired_branches,
        )
        run = None if plan else apply_expire(repo, planned)
    session.output.answer(Expired(planned, run, plan))
