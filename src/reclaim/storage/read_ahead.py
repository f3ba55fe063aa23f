"""Read ahead: request small objects before the previous answers arrive.

Buckets answer slowly, but many requests at once. Results come in the order of the requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from reclaim.storage.base import Storage

ENTRIES_AHEAD = 1_000_000
"""Most entries read ahead, some hundred megabytes."""

UNKNOWN_SIZE = ENTRIES_AHEAD // 64
"""Assumed size of an item of unknown size."""

S = TypeVar("S")
T = TypeVar("T")


def read_ahead(
    storage: Storage,
    read: Callable[[S], T],
    items: Iterable[S],
    *,
    entries: Callable[[S], int] = lambda _item: UNKNOWN_SIZE,
) -> Iterator[T]:
    """Yield the result of reading each item; ``entries`` estimates the size of a result.

    On a disk, which answers at once, items are read one after the other.
    """
    at_once = storage.reads_at_once
    if at_once <= 1:
        yield from map(read, items)
        return
    waiting: deque[tuple[Future[T], int]] = deque()
    ahead = 0
    with ThreadPoolExecutor(at_once) as readers:
        try:
            for item in items:
                count = entries(item)
                while waiting and (len(waiting) >= 2 * at_once or ahead + count > ENTRIES_AHEAD):
                    answer, size = waiting.popleft()
                    ahead -= size
                    yield answer.result()
                waiting.append((readers.submit(read, item), count))
                ahead += count
            while waiting:
                yield waiting.popleft()[0].result()
        finally:
            # A consumer that stops early waits for the requests sent, and for no more.
            readers.shutdown(cancel_futures=True)
