"""A bar in a terminal, by rich."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from reclaim.progress.facts import fact
from reclaim.progress.gauge import Progress
from reclaim.progress.watch import Nothing

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from reclaim.run.record.stages import Stage


@contextmanager
def showing_bar(stream: TextIO | None = None) -> Iterator[Bar]:
    """Show a bar while the block runs; by default on stderr, and in a notebook below its cell."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as RichProgress

    console = Console(file=stream, stderr=stream is None, highlight=False)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[said]}", markup=False, style="dim"),
    )
    with RichProgress(*columns, console=console, transient=True) as progress:
        yield Bar(console, progress, progress.add_task("", total=None, said="", visible=False))


class Bar(Nothing):
    """A line for each finished stage, and a bar for the current stage."""

    every = 0.5

    def __init__(self, console: Console, progress: RichProgress, bar: TaskID) -> None:
        self._console = console
        self._progress = progress
        self._bar = bar

    def begin(self, stage: Stage) -> None:
        self._progress.reset(self._bar, total=None, visible=True, description=stage.name, said="")

    def show(self, reading: Progress) -> None:
        self._progress.update(
            self._bar, completed=reading.done, total=reading.total, said=reading.sentence()
        )

    def end(self, stage: Stage) -> None:
        facts = ", ".join(fact(name, value, stage.noun) for name, value in stage.facts.items())
        took = f"{stage.seconds:6.1f} s" if stage.seconds else " " * 8
        self._console.print(f"{took}  {stage.name:<16} {facts}", style="dim", markup=False)
        self._progress.update(self._bar, visible=False)

    def tell(self, line: str) -> None:
        self._console.print(line, style="dim", markup=False)
