"""Gauge of a stage: count, rate and time left, from the meter of the engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reclaim.progress.facts import unit_name

if TYPE_CHECKING:
    from reclaim.engine.base import Meter
    from reclaim.run.record.stages import Stage

SOON = 1.0
"""Seconds before the first rate."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a stage. Without a unit nothing has been counted yet."""

    stage: str
    run: str
    seconds: float
    """Since the stage began."""
    done: int = 0
    total: int | None = None
    unit: str = ""
    finished: bool = False
    """Whether the stage has ended."""

    @property
    def rate(self) -> float | None:
        """Units done in a second."""
        return self.done / self.seconds if self.done and self.seconds >= SOON else None

    @property
    def left(self) -> float | None:
        """Seconds left at this rate."""
        if self.total is None or self.rate is None:
            return None
        return (self.total - self.done) / self.rate

    def sentence(self) -> str:
        if not self.unit:
            return f"at work for {span(self.seconds)}"
        count = f"{self.done:,}" if self.total is None else f"{self.done:,} of {self.total:,}"
        said = [f"{count} {unit_name(self.unit)}"]
        if self.rate is not None:
            said.append(f"{self.rate:,.0f}/s" if self.rate >= 10 else f"{self.rate:.1f}/s")
        if self.left is not None:
            said.append(f"{span(self.left)} left")
        return ", ".join(said)

    def fields(self) -> dict[str, object]:
        """Return the reading as fields of a log record."""
        fields: dict[str, object] = {
            "run": self.run,
            "stage": self.stage,
            "seconds": round(self.seconds, 1),
        }
        if self.unit:
            fields |= {"done": self.done, "total": self.total, "unit": self.unit}
        if self.rate is not None:
            fields["rate"] = round(self.rate, 1)
        if self.left is not None:
            fields["left"] = round(self.left)
        return fields


class Gauge:
    """Reads a meter for a stage, from its beginning."""

    def __init__(self, stage: Stage, meter: Meter | None, now: float) -> None:
        self.stage = stage
        self._began = now
        self._meter: Meter | None = None
        self._before = 0
        if meter is not None:
            self.attach(meter)

    def attach(self, meter: Meter) -> None:
        """Read this meter; counts from now on belong to the stage."""
        self._before = meter.units().get(self.stage.unit, 0)
        self._meter = meter

    def read(self, now: float) -> Progress:
        """Return the units reported by tasks, or else the number of finished tasks."""
        reading = Progress(self.stage.name, self.stage.run, now - self._began)
        if self._meter is None:
            return reading
        unit, total = self.stage.unit, self.stage.total
        if unit and (done := self._meter.units().get(unit, 0) - self._before):
            # A task that was tried again has counted twice.
            done = done if total is None else min(done, total)
            return replace(reading, done=done, total=total, unit=unit)
        tasks = self._meter.tasks()
        if not tasks.total:
            return reading
        return replace(reading, done=tasks.finished, total=tasks.total, unit="tasks")


def span(seconds: float) -> str:
    """A length of time for people."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
