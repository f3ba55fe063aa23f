"""``reclaim expire``: take old snapshots out of history, by rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reclaim.cli.command import command
from reclaim.cli.describe import SHORT, commits
from reclaim.cli.output import Block, Table
from reclaim.cli.places import parse_repository
from reclaim.cli.repo import RepositoryArgument
from reclaim.cli.session import Session
from reclaim.errors import InvalidInput

if TYPE_CHECKING:
    from reclaim.catalog import Run
    from reclaim.policy import Policy
    from reclaim.run.expire import ExpirePlan

SHOWN = 50
"""How many decisions people are shown; ``--json`` has them all."""


def register(app: typer.Typer) -> None:
    command(app, "expire", expire)


def _count(period: str) -> Any:
    what = "The last N." if period == "last" else f"The newest of each of the last N, {period}."
    return typer.Option(f"--keep-{period}", metavar="N", min=1, help=what, show_default=False)


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
                {"commit": one.id, "kept": one.kept, "reasons": list(one.reasons)}
                for one in self.plan.reached()
            ],
            "reparented": {found: list(new) for found, new in edit.reparent.items()},
            "released": list(self.plan.released()),
            "expired_tips": [ref.name for ref in edit.expired_tips],
            "deleted_refs": [ref.name for ref in edit.delete_refs],
            "touched_bases": [base.branch for base in edit.touched_bases],
        }

    def view(self) -> Iterator[Block]:
        edit = self.plan.edit
        decisions = list(self.plan.reached())
        rows = (
            (one.id[:SHORT], "kept" if one.kept else "expired", "; ".join(one.reasons))
            for one in decisions[:SHOWN]
        )
        yield Table(("commit", "decision", "why"), rows)
        if len(decisions) > SHOWN:
            yield f"(and {len(decisions) - SHOWN} more; --json shows them all)"
        kept = sum(one.kept for one in decisions)
        verb = "would get" if self.only_planned else "got"
        yield f"Of {commits(len(decisions))} {kept} stay and {len(decisions) - kept} expire."
        if edit.empty:
            yield "Nothing has to be edited."
        else:
            released = len(self.plan.released())
            yield f"{commits(len(edit.reparent))} {verb} other parents."
            reached = "would be" if self.only_planned else "will be"
            yield f"{commits(released)} {reached} reached by nothing any more."
        for ref in edit.delete_refs:
            gone = "would be deleted" if self.only_planned else "was deleted"
            yield f"The {ref.kind} {ref.name} {gone}: its commit is expired."
        for ref in edit.expired_tips:
            if ref not in edit.delete_refs:
                yield f"The {ref.kind} {ref.name} is at an expired commit, and stays with it."
        for base in edit.touched_bases:
            yield (
                f"The base of {base.branch} with the default branch is touched: a merge will "
                "treat every difference as a conflict."
            )
        if self.run is not None:
            yield f"No bytes were deleted. To take it back: reclaim undo {self.run.id}"


def expire(
    session: Session,
    repository: RepositoryArgument,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="A duration (30d) or an instant.", show_default=False),
    ] = None,
    keep_within: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="Counted back from a tip.", show_default=False),
    ] = None,
    keep_last: Annotated[int | None, _count("last")] = None,
    keep_hourly: Annotated[int | None, _count("hourly")] = None,
    keep_daily: Annotated[int | None, _count("daily")] = None,
    keep_weekly: Annotated[int | None, _count("weekly")] = None,
    keep_monthly: Annotated[int | None, _count("monthly")] = None,
    keep_yearly: Annotated[int | None, _count("yearly")] = None,
    keep_merge_bases: Annotated[
        bool, typer.Option("--keep-merge-bases", help="Keep bases with the default branch.")
    ] = False,
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Rules by ref, in YAML or JSON.", show_default=False),
    ] = None,
    ref: Annotated[
        list[str] | None,
        typer.Option("--ref", metavar="REF", help="Edit only what this reaches; repeatable."),
    ] = None,
    delete_expired_tags: Annotated[
        bool, typer.Option("--delete-expired-tags", help="Delete tags at expired commits.")
    ] = False,
    delete_expired_branches: Annotated[
        bool, typer.Option("--delete-expired-branches", help="Delete branches at expired commits.")
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Show it and change nothing.")] = False,
) -> None:
    """Take snapshots out of history by rules. Deletes no bytes, so it does not ask."""
    from reclaim.run.expire import apply_expire, plan_expire

    options = {
        "older_than": older_than,
        "keep_within": keep_within,
        "keep_last": keep_last,
        "keep_hourly": keep_hourly,
        "keep_daily": keep_daily,
        "keep_weekly": keep_weekly,
        "keep_monthly": keep_monthly,
        "keep_yearly": keep_yearly,
        "keep_merge_bases": keep_merge_bases or None,
    }
    rules = _policy(policy, options)
    with session.open() as catalog:
        repo = catalog.repository(parse_repository(repository))
        planned = plan_expire(
            repo,
            rules,
            refs=ref or (),
            delete_expired_tags=delete_expired_tags,
            delete_expired_branches=delete_expired_branches,
        )
        run = None if plan else apply_expire(repo, planned)
    session.output.answer(Expired(planned, run, plan))


def _policy(file: Path | None, options: Mapping[str, Any]) -> Policy:
    from reclaim.policy import from_options, read_policy

    if file is None:
        return from_options(**options)
    if any(value is not None for value in options.values()):
        raise InvalidInput(
            "rules are given both in a file and as options", hint="write all of them in the file"
        )
    try:
        return read_policy(file.read_text(encoding="utf-8"), source=str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read the policy {file}: {error}") from error
