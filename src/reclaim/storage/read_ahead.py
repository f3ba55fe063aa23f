"""Reading ahead: small objects are asked for before those in front of them have come.

The answers of a bucket take their time, and several can be waited for at once. They come out in
the order in which they were asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from reclaim.storage.base import Storage

ENTRIES_AHEAD = 1_000_000
"""So many entries, some hundred megabytes, are read ahead at most."""

UNKNOWN_SIZE = ENTRIES_AHEAD // 64
"""The count of an item of which nobody knows how much it is."""

S = TypeVar("S")
T = TypeVar("T")


def read_ahead(
    storage: Storage,
    read: Callable[[S], T],
    items: Iterable[S],
    *,
    entries: Callable[[S], int] = lambda _item: UNKNOWN_SIZE,
) -> Iterator[T]:
    """The result of reading each item; ``entries`` tells about how much that is.

    On a disk, which answers at once, one after the other.
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
            # Whoever stops in between waits for what was sent, and for no more than that.
            readers.shutdown(cancel_futures=True)
