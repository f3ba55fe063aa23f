"""Progress of transfers on stderr, on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from reclaim.cli.options.verbosity import CURRENT

Advance = Callable[[int], None]
"""Called with the size of each finished object, from any thread."""


@contextmanager
def progress(
    title: str, *, objects: int | None = None, size: int | None = None
) -> Iterator[Advance]:
    """Show progress in the block; nothing unless stderr is a terminal."""
    if CURRENT.get().quiet or not sys.stderr.isatty():
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
