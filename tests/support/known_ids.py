"""Ids that follow from who asks and how often, so that a run can be repeated."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Protocol
from unittest.mock import patch

from reclaim import ids
from reclaim.run.undo import undo_run as undo


class Maker(Protocol):
    """Somebody who works in a thread of his own."""

    @property
    def name(self) -> str: ...

    @property
    def number(self) -> int: ...

    @property
    def thread(self) -> threading.Thread | None: ...


@contextmanager
def known_ids(tasks: Sequence[Maker]) -> Iterator[None]:
    """Let ids follow from the task and the number of its ids, so that a run can be repeated."""
    known = _KnownIds(tasks)
    with patch.object(ids, "secrets", known), patch.object(undo, "secrets", known):
        yield


class _KnownIds:
    def __init__(self, tasks: Sequence[Maker]) -> None:
        self._tasks = tasks
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()

    def randbelow(self, limit: int) -> int:
        return int(self.token_hex(8), 16) % limit

    def token_hex(self, size: int) -> str:
        thread = threading.current_thread()
        maker = next((task for task in self._tasks if task.thread is thread), None)
        name, number = (maker.name, str(maker.number)) if maker else ("", "")
        with self._lock:
            count = self._counts[number] = self._counts.get(number, 0) + 1
        return blake2b(f"{name} {number} {count}".encode(), digest_size=size).hexdigest()
