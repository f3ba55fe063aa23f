"""Progress on stderr, for long work that a person is watching."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

from reclaim.cli.describe import size as readable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from reclaim.run.stages import Stage, Watcher

Advance = Callable[[int], None]
"""Called with the size of each object that is finished, from any thread."""


@contextmanager
def progress(
    title: str, *, objects: int | None = None, size: int | None = None
) -> Iterator[Advance]:
    """Show how far the work is; nothing is shown unless stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _size: None
        return

    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    total = f"/{objects}" if objects is not None else ""
    bar = Progress(
        TextColumn(title),
        BarColumn(),
        TextColumn("{task.fields[objects]}" + total + " objects"),
        DownloadColumn(binary_units=True),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(title, total=size, objects=0)
        finished = count(1)
        yield lambda size: bar.update(task, advance=size, objects=next(finished))


@contextmanager
def watcher(*, hidden: bool = False) -> Iterator[Watcher]:
    """Shows the stages of a run with what each found; silent unless stderr is a terminal."""
    from reclaim.run.stages import Silent

    if hidden or not sys.stderr.isatty():
        yield Silent()
        return

    from rich.console import Console

    # A terminal of its own: stderr is turned away while Spark starts.
    with os.fdopen(os.dup(sys.stderr.fileno()), "w") as terminal:
        console = Console(file=terminal, highlight=False)
        with console.status("") as status:
            yield _Shown(console, status)


class _Shown:
    """A line for each stage that is done, and a turning sign beside the one that runs."""

    def __init__(self, console: Console, status: Status) -> None:
        self._console = console
        self._status = status

    def begin(self, stage: Stage) -> None:
        self._status.update(stage.name)

    def end(self, stage: Stage) -> None:
        facts = ", ".join(
            readable(value) if name == "bytes" else f"{value} {name}"
            for name, value in stage.facts.items()
        )
        took = f"{stage.seconds:6.1f} s" if stage.seconds else " " * 8
        self._console.print(f"{took}  {stage.name:<16} {facts}", style="dim", markup=False)
        self._status.update("")
