"""Tally: counts of the work done by a running task, reported in a file.

For people who watch, on the driver's machine: nothing is decided by it, a repeated task counts
again, and a failed write is no error.
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
"""Units of counts."""

WRITE_SECONDS = 0.5
"""Least interval between two reports of a task."""

_Item = TypeVar("_Item")


class Tally:
    """The counts of a single attempt at a task, by unit."""

    def __init__(self, folder: str) -> None:
        self._file = Path(folder) / uuid4().hex
        self._counts: Counter[str] = Counter()
        self._told_at = monotonic()

    def add(self, unit: str, count: int) -> None:
        self._counts[unit] += count
        if monotonic() - self._told_at >= WRITE_SECONDS:
            self.write()

    def write(self) -> None:
        """Write the counts; readers see all of them or none."""
        self._told_at = monotonic()
        if not self._counts:
            return
        writing = self._file.with_suffix(".part")
        try:
            writing.write_text(json.dumps(self._counts))
            writing.replace(self._file)
        except OSError:
            # The folder is removed when nobody watches any more.
            pass


_current: Tally | None = None
"""The tally of the task running in this process, a single task at a time."""


def count(unit: str, number: int) -> None:
    """Count work of the task in this process, if somebody watches."""
    if _current is not None:
        _current.add(unit, number)


def tallied(folder: str, work: Iterator[_Item]) -> Iterator[_Item]:
    """Do work and report its counts in a folder, meanwhile and at its end."""
    global _current
    _current = tally = Tally(folder)
    try:
        yield from work
    finally:
        tally.write()
        _current = None


class Tallies:
    """The counts of all tasks reporting in a folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._known: dict[str, tuple[int, Counter[str]]] = {}

    def read(self) -> Counter[str]:
        """Return the current sums by unit; only changed files are read."""
        try:
            with os.scandir(self._folder) as files:
                changed_at = {
                    file.name: file.stat().st_mtime_ns for file in files if "." not in file.name
                }
        except OSError:
            changed_at = {}
        for name, changed in changed_at.items():
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
