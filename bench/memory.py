"""The memory of this process and all below it, watched while something runs."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Self


class Memory:
    """Samples the resident memory of the whole tree of processes; shared pages count twice."""

    def __init__(self, every: float = 0.2) -> None:
        self._every = every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.peak = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def gibibytes(self) -> float:
        return self.peak / 1024**2

    def _watch(self) -> None:
        while not self._stop.wait(self._every):
            self.peak = max(self.peak, _resident())


def _resident() -> int:
    """In KiB, of this process and everything that it started."""
    import os

    parents: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except (OSError, ValueError):
            continue
        process = int(status.parent.name)
        parents[process] = int(lines["PPid"])
        sizes[process] = int(lines.get("VmRSS", "0 kB").split()[0])
    mine = {os.getpid()}
    while True:
        below = {process for process, parent in parents.items() if parent in mine} - mine
        if not below:
            return sum(sizes.get(process, 0) for process in mine)
        mine |= below
