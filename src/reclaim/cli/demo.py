"""``reclaim demo``: the product in a few seconds, on a catalog made for it."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reclaim.cli import local
from reclaim.cli.command import command
from reclaim.cli.describe import size
from reclaim.cli.output import Block, Table
from reclaim.cli.session import Session
from reclaim.errors import AlreadyExists

if TYPE_CHECKING:
    from reclaim.demo import Picture, Report

CLOCK = "The clock is simulated: its history was written just now, with dates in the past."
KEPT = (
    "No bytes were deleted: the collector does not exist yet. Next come `plan` and `apply`, which "
    "take what nothing reaches."
)


def register(app: typer.Typer) -> None:
    command(app, "demo", demo)


def demo(
    session: Session,
    folder: Annotated[
        str | None,
        typer.Argument(
            metavar="DIR", help="Where to build it. Default: a new folder.", show_default=False
        ),
    ] = None,
) -> None:
    """Build a small catalog with three months of history, and show what retention sees in it."""
    from reclaim.clock import SystemClock
    from reclaim.demo import run

    report = run(_place(folder), until=SystemClock().now())
    session.output.answer(Demonstration(report))


def _place(folder: str | None) -> Path:
    with local.translated():
        if folder is None:
            return Path(tempfile.mkdtemp(prefix="reclaim-demo-"))
        place = Path(folder).expanduser()
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise AlreadyExists(f"{place} is not an empty folder", hint="name a new one")
        return place


@dataclass(frozen=True, slots=True)
class Demonstration:
    """The answer that shows a report."""

    report: Report

    def document(self) -> Mapping[str, Any]:
        return {
            "clock": CLOCK,
            **asdict(self.report),
            "bytes_deleted": 0,
            "next": KEPT,
            "try": self._commands(),
        }

    def view(self) -> Iterator[Block]:
        report = self.report
        yield f"Built a catalog in {report.catalog}"
        yield (
            f"with {report.commits} commits on {report.refs} refs, "
            f"from {report.began:%Y-%m-%d} to {report.ended:%Y-%m-%d}."
        )
        yield CLOCK
        yield "\nThe retention job so far:"
        yield f"Cleaned {report.rows_cleaned} rows of staging that nobody reads any more."
        yield (
            f"Expired all but {report.rule}: "
            f"{report.released} of {report.commits} commits are reached by nothing any more."
        )
        yield f"Exported what a run must know to {report.exported}"
        yield "\nWhat is in the storage:"
        yield _compare("kind", report.before, report.after, "kinds")
        yield "\nWhy data, ranges and metaranges are kept:"
        yield _compare("reason", report.before, report.after, "reasons")
        if report.tokens_expired:
            yield f"({report.tokens_expired} upload token has expired; a collection may end it.)"
        yield "\nRows of staging:"
        yield Table(
            ("", "before", "after"),
            [("rows", str(report.before.rows), str(report.after.rows))],
            frozenset({"before", "after"}),
            always_headed=True,
        )
        yield f"\n{KEPT}"
        yield "\nTry:"
        for line in self._commands():
            yield f"  {line}"

    def _commands(self) -> list[str]:
        chosen = f"--catalog {shlex.quote(self.report.catalog)}"
        return [
            f"reclaim log sales --oneline -n 10 {chosen}",
            f"reclaim diff sales/v1 v2 --stat {chosen}",
            f"reclaim diff sales/experiment {chosen}",
            f"reclaim undo {self.report.run} {chosen}",
        ]


def _compare(head: str, before: Picture, after: Picture, name: str) -> Table:
    columns = (head, "objects before", "objects after", "bytes before", "bytes after")
    first, second = getattr(before, name), getattr(after, name)
    rows = [
        (
            key,
            str(first[key].objects),
            str(second[key].objects),
            size(first[key].bytes),
            size(second[key].bytes),
        )
        for key in first
    ]
    return Table(columns, rows, frozenset(columns[1:]), always_headed=True)
