"""A figure: what was measured, against what, how often, and what it should be."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Timer:
    """Seconds by name, as a clock shows them: the wall's, or that of this process's work."""

    clock: Callable[[], float] = time.perf_counter
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        gc.collect()
        start = self.clock()
        yield
        self.seconds[name] = self.clock() - start


@dataclass(frozen=True)
class Figure:
    """A ratio, taken several times."""

    name: str
    ratios: list[float]
    target: str
    holds: Callable[[float], bool]
    notes: list[str]

    @property
    def median(self) -> float:
        return statistics.median(self.ratios)

    def lines(self) -> Iterator[str]:
        spread = f"{min(self.ratios):.3g} to {max(self.ratios):.3g}"
        verdict = "holds" if self.holds(self.median) else "MISSED"
        yield f"{self.name}: {self.median:.3g} ({spread}, {len(self.ratios)} runs); "
        yield f"    target {self.target}: {verdict}"
        for note in self.notes:
            yield f"    {note}"


def rate(count: int, seconds: float) -> str:
    return f"{count / seconds:,.0f}/s"
