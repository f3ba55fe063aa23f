"""Tally: what a task has done so far, told in a file while it is at work.

For people who watch, on the machine of the driver: nothing is decided by it, a task that is tried
again counts again, and a file that cannot be written is no error.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import TypeVar
from uuid import uuid4

OBJECTS, CONTAINERS = "objects", "containers"
"""Units: what is counted."""

TELL_SECONDS = 0.5
"""A task tells at most so often."""

_Item = TypeVar("_Item")


class Tally:
    """The counts of one attempt at a task, by unit."""

    def __init__(self, folder: str) -> None:
        self._file = Path(folder) / uuid4().hex
        self._counts: Counter[str] = Counter()
        self._told_at = monotonic()

    def add(self, unit: str, count: int) -> None:
        self._counts[unit] += count
        if monotonic() - self._told_at >= TELL_SECONDS:
            self.tell()

    def tell(self) -> None:
        """Write the counts down; whoever reads them sees all of them or none."""
        self._told_at = monotonic()
        if not self._counts:
            return
        writing = self._file.with_suffix(".part")
        try:
            writing.write_text(json.dumps(self._counts))
            writing.replace(self._file)
        except OSError:
            # The folder goes when nobody watches any more.
            pass


_current: Tally | None = None
"""The tally of the task that runs in this process: one at a time."""


def count(unit: str, number: int) -> None:
    """Count what the task in this process has done, if somebody watches."""
    if _current is not None:
        _current.add(unit, number)


def tallied(folder: str, work: Iterator[_Item]) -> Iterator[_Item]:
    """Do work and tell its counts in a folder, on the way and at its end."""
    global _current
    _current = tally = Tally(folder)
    try:
        yield from work
    finally:
        tally.tell()
        _current = None


class Tallies:
    """The counts of all tasks that tell them in a folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._known: dict[str, tuple[int, Counter[str]]] = {}

    def read(self) -> Counter[str]:
        """The sums by unit, as of now; only files that have changed are read."""
        try:
            with os.scandir(self._folder) as files:
                told = {
                    file.name: file.stat().st_mtime_ns for file in files if "." not in file.name
                }
        except OSError:
            told = {}
        for name, changed in told.items():
            if self._known.get(name, (0,))[0] != changed:
                self._known[name] = changed, self._read(name)
        sums: Counter[str] = Counter()
        for _, counts in self._known.values():
            sums.update(counts)
        return sums

    def _read(self, name: str) -> Counter[str]:
        try:
            return Counter(json.loads((Path(self._folder) / name).read_text()))
        except (OSError, ValueError):
            return Counter()
