"""Watch a run: report the progress of each stage from a background thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from reclaim.progress.gauge import Gauge, Progress
from reclaim.text import printable

if TYPE_CHECKING:
    from reclaim.engine.base import Meter
    from reclaim.run.record.stages import Stage

SECONDS = 60.0
"""Default seconds between two readings."""


class Face(Protocol):
    """Display of readings."""

    every: float
    """Seconds between two readings."""

    def begin(self, stage: Stage) -> None: ...

    def show(self, reading: Progress) -> None: ...

    def end(self, stage: Stage) -> None: ...

    def tell(self, line: str) -> None: ...


class Watch:
    """Reports the progress of each stage to a face, from a background thread."""

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
        """Show a line, such as the result of a store among several."""
        self._face.tell(printable(line))

    def tick(self) -> None:
        """Show the progress of the current stage."""
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


class Nothing:
    """Shows nothing."""

    every = SECONDS

    def begin(self, stage: Stage) -> None:
        pass

    def show(self, reading: Progress) -> None:
        pass

    def end(self, stage: Stage) -> None:
        pass

    def tell(self, line: str) -> None:
        pass


class Callback(Nothing):
    """Calls a function with each reading, and when a stage begins and ends."""

    every = 1.0

    def __init__(self, function: Callable[[Progress], object]) -> None:
        self._function = function

    def begin(self, stage: Stage) -> None:
        self.show(Progress(stage.name, stage.run, 0.0, total=stage.total, unit=stage.unit))

    def show(self, reading: Progress) -> None:
        self._function(reading)

    def end(self, stage: Stage) -> None:
        self.show(
            Progress(
                stage.name,
                stage.run,
                stage.seconds,
                total=stage.total,
                unit=stage.unit,
                finished=True,
            )
        )
