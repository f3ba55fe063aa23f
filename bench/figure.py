"""A figure: what was measured, against what, how often, and what it should be."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path


def processor_seconds(root: int | None = None, *, without: int = 0) -> float:
    """Processor time of a process and of all that it started: by default of this one, with Java
    and its workers. One of them can be left out."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):
                text = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(text[1]), []).append(int(entry.name))
                # Of itself, and of children that have ended.
                ticks[int(entry.name)] = sum(map(int, text[11:15]))
    total, waiting = 0, [os.getpid() if root is None else root]
    while waiting:
        process = waiting.pop()
        if process == without:
            continue
        total += ticks.get(process, 0)
        waiting += children.get(process, [])
    return total / os.sysconf("SC_CLK_TCK")


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
