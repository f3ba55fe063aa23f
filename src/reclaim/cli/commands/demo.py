"""``reclaim demo``: a demonstration on a temporary catalog, in a few seconds."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import typer

from reclaim.cli import local
from reclaim.cli.command import command
from reclaim.cli.running import RunOptions
from reclaim.cli.session import Session
from reclaim.cli.views.describe import commits, objects
from reclaim.cli.views.documents import Id
from reclaim.cli.views.output import Block, Table
from reclaim.errors import AlreadyExists
from reclaim.ids import short
from reclaim.text import size

if TYPE_CHECKING:
    from reclaim.demo import Picture, Report

CLOCK = "The clock is simulated: its history was written just now, with dates in the past."


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
    """Build a small catalog and collect it, in a few seconds.

    The catalog has three months of history. The demonstration shows a plan, an apply, a quarantine
    and its undo.
    """
    from reclaim.clock import SystemClock
    from reclaim.demo import run

    place, running = _place(folder), RunOptions()
    with running.work().begin() as (engine, _):
        report = run(place, engine, until=SystemClock().now())
    session.output.answer(Demonstration(report))


def _place(folder: str | None) -> Path:
    with local.translated():
        if folder is None:
            return Path(tempfile.mkdtemp(prefix="reclaim-demo-"))
        place = Path(folder).expanduser()
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise AlreadyExists(f"{place} is not an empty folder", hint="name a new one")
        return place


DemoFacts = TypedDict(
    "DemoFacts", {"clock": str, "run": Id, "bytes_deleted": int, "try": Sequence[str]}
)
"""Fields of the answer in addition to the fields of the report."""


@dataclass(frozen=True, slots=True)
class Demonstration:
    """Answer that shows a report."""

    report: Report

    def document(self) -> Mapping[str, Any]:
        going = self.report.going.values()
        return {
            "clock": CLOCK,
            **asdict(self.report),
            "bytes_deleted": sum(tally.bytes for tally in going),
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
        yield "\nThe retention job:"
        yield f"clean   removed {report.rows_cleaned} unused rows of the staging tables."
        yield f"expire  kept {report.rule}:"
        yield f"        {report.released} of {report.commits} commits are unreachable now."
        going = report.going.values()
        count, total = sum(tally.objects for tally in going), sum(tally.bytes for tally in going)
        yield f"plan    found {objects(count)} ({size(total)}) without references:"
        rows = [(why, str(tally.objects), size(tally.bytes)) for why, tally in report.going.items()]
        yield Table(("reason", "objects", "bytes"), rows, frozenset({"objects", "bytes"}))
        yield (f"apply   deleted them: {size(total)} freed, {commits(report.collected)} removed.")
        explained = report.explained
        yield (
            f"        The largest with a path: {explained.path} ({size(explained.size)}),\n"
            f"        {explained.reason}."
        )
        yield "\nObjects in the storage:"
        yield _compare("kind", report.before, report.after, "kinds")
        read = report.read_back
        yield (
            f"\nRead back {objects(read.objects)} ({size(read.bytes)}), everything referenced by "
            "branches, tags and their history:\nno referenced object was lost."
        )
        moved, restored = report.moved, report.restored
        yield (
            f"The repository trial, with a quarantine:\n"
            f"apply   moved {objects(moved.objects)} ({size(moved.bytes)}) to quarantine.\n"
            f"undo    restored {objects(restored.objects)} ({size(restored.bytes)})."
        )
        yield f"Reading a removed commit:\nerror: {report.gone}"
        yield "\nTry:"
        for line in self._commands():
            yield f"  {line}"

    def _commands(self) -> list[str]:
        report = self.report
        first = f"export RECLAIM_CATALOG={shlex.quote(report.catalog)}"
        program, folder = _program()
        if folder:
            first += f' PATH={shlex.quote(folder)}:"$PATH"'
        commands = (
            "log sales --oneline -n 10",
            "log sales/main totals/north.csv --oneline",
            "diff sales/v1 v2 --stat",
            "runs",
            f"show {short(report.applied)} --objects --limit 10",
            "doctor",
        )
        return [first, *(f"{program} {command}" for command in commands)]


def _program() -> tuple[str, str]:
    """Return the command for ``reclaim``, and its folder if it is not on the path."""
    if shutil.which("reclaim"):
        return "reclaim", ""
    installed = Path(sys.executable).with_name("reclaim")
    if installed.is_file():
        return "reclaim", str(installed.parent)
    return shlex.join([sys.executable, "-m", "reclaim.cli.main"]), ""


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
    return Table(columns, rows, frozenset(columns[1:]))
