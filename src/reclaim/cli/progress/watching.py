"""Watching a run: a bar on a terminal, elsewhere a line a minute, or log lines if they are on."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Protocol, TextIO

from reclaim.cli.options.verbosity import CURRENT
from reclaim.cli.progress.gauge import Gauge, Reading
from reclaim.cli.views.describe import size as readable
from reclaim.cli.views.output import printable
from reclaim.model import instant_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from reclaim.engine.base import Meter
    from reclaim.run.record.stages import Stage

BAR_SECONDS = 0.5
LINE_SECONDS = 60.0
"""How often a bar moves, and how often there is a line where there is no terminal."""

log = logging.getLogger("reclaim.run")


class Face(Protocol):
    """Where readings are shown."""

    every: float
    """Seconds between two readings."""

    def begin(self, stage: Stage) -> None: ...

    def show(self, reading: Reading) -> None: ...

    def end(self, stage: Stage) -> None: ...

    def tell(self, line: str) -> None: ...


class Watch:
    """Tells a face how far each stage of a run is, from a thread of its own."""

    def __init__(self, face: Face) -> None:
        self._face = face
        self._meter: Meter | None = None
        # Of the stages at work, an inner one after its outer: Spark starts inside a stage.
        self._gauges: tuple[Gauge, ...] = ()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="reclaim-progress", daemon=True)

    def measure(self, meter: Meter) -> None:
        """Read this meter from now on; it is closed with the watch."""
        self._meter = meter
        for gauge in self._gauges:
            gauge.attach(meter)

    def begin(self, stage: Stage) -> None:
        # One of a run follows the one before, which may have failed; others are inside it.
        outer = () if stage.run else self._gauges
        self._gauges = (*outer, Gauge(stage, self._meter, monotonic()))
        self._face.begin(stage)
        if self._thread.ident is None:
            self._thread.start()

    def end(self, stage: Stage) -> None:
        self._gauges = tuple(gauge for gauge in self._gauges if gauge.stage is not stage)
        self._face.end(stage)
        if self._gauges:
            self._face.begin(self._gauges[-1].stage)

    def tell(self, line: str) -> None:
        """Show a line on the work of several runs: what is done so far."""
        self._face.tell(printable(line))

    def tick(self) -> None:
        """Show how far the stage is that runs now."""
        gauges = self._gauges
        if gauges:
            self._face.show(gauges[-1].read(monotonic()))

    def close(self) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(self._face.every)
        if self._meter is not None:
            self._meter.close()

    def _keep(self) -> None:
        while not self._over.wait(self._face.every):
            # Whatever is wrong with a progress line, the run goes on.
            with suppress(Exception):
                self.tick()


@contextmanager
def watching() -> Iterator[Watch]:
    """Show the stages of a run in the block, as far as the command was not asked to be quiet."""
    asked = CURRENT.get()
    if asked.quiet:
        with _closing(Watch(Nothing())) as watch:
            yield watch
    elif asked.level:
        with _closing(Watch(LogLines())) as watch:
            yield watch
    else:
        # A stream of its own: stderr is turned away while Spark starts.
        with _stderr() as stream, _face(stream) as face, _closing(Watch(face)) as watch:
            yield watch


@contextmanager
def _closing(watch: Watch) -> Iterator[Watch]:
    try:
        yield watch
    finally:
        watch.close()


@contextmanager
def _stderr() -> Iterator[TextIO]:
    try:
        copy = os.dup(sys.stderr.fileno())
    except (OSError, ValueError):
        yield sys.stderr
        return
    with os.fdopen(copy, "w", errors="backslashreplace") as stream:
        yield stream


@contextmanager
def _face(stream: TextIO) -> Iterator[Face]:
    if not sys.stderr.isatty():
        yield MinuteLines(stream)
        return

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(file=stream, highlight=False)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[said]}", markup=False, style="dim"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield Bar(console, progress, progress.add_task("", total=None, said="", visible=False))


class Nothing:
    """Shows nothing."""

    every = LINE_SECONDS

    def begin(self, stage: Stage) -> None:
        pass

    def show(self, reading: Reading) -> None:
        pass

    def end(self, stage: Stage) -> None:
        pass

    def tell(self, line: str) -> None:
        pass


class Bar(Nothing):
    """A line for each stage that is done, and a bar for the one that runs."""

    every = BAR_SECONDS

    def __init__(self, console: Console, progress: Progress, bar: TaskID) -> None:
        self._console = console
        self._progress = progress
        self._bar = bar

    def begin(self, stage: Stage) -> None:
        self._progress.reset(self._bar, total=None, visible=True, description=stage.name, said="")

    def show(self, reading: Reading) -> None:
        self._progress.update(
            self._bar, completed=reading.done, total=reading.total, said=reading.sentence()
        )

    def end(self, stage: Stage) -> None:
        facts = ", ".join(
            readable(value) if name == "bytes" else f"{value} {name}"
            for name, value in stage.facts.items()
        )
        took = f"{stage.seconds:6.1f} s" if stage.seconds else " " * 8
        self._console.print(f"{took}  {stage.name:<16} {facts}", style="dim", markup=False)
        self._progress.update(self._bar, visible=False)

    def tell(self, line: str) -> None:
        self._console.print(line, style="dim", markup=False)


class MinuteLines(Nothing):
    """A line a minute, for logs of schedulers; nothing for a run that takes less."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, reading: Reading) -> None:
        print(f"{_now()} {reading.stage}: {reading.sentence()}", file=self._stream, flush=True)


class LogLines(Nothing):
    """The same as a record of the log."""

    def show(self, reading: Reading) -> None:
        from reclaim.run.record.stages import FIELDS, as_text

        log.info(as_text(reading.fields()), extra={FIELDS: reading.fields()})

    def tell(self, line: str) -> None:
        log.info(line)


def _now() -> str:
    from reclaim.clock import SystemClock

    return instant_text(SystemClock().now(), "seconds")
