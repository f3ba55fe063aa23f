"""List key ranges, several at a time if the storage answers many requests at once.

A storage returns the pages of a range one after the other, and most of the time is spent waiting.
On a disk there is nothing to wait for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Full, Queue
from threading import Event

import pyarrow as pa

from reclaim.storage import KeyRange, Storage

RANGES_AT_ONCE = 8
WAITING = 4
"""Batches waiting to be written, for each range being listed."""
LOOK_EVERY = 0.1
"""Seconds after which a thread checks whether its listing was abandoned."""


def list_ranges(storage: Storage, ranges: Sequence[KeyRange]) -> Iterator[pa.RecordBatch]:
    """Yield the objects of key ranges, in any order."""
    threads = min(RANGES_AT_ONCE, storage.at_once, len(ranges))
    if threads < 2:
        for keys in ranges:
            yield from storage.batches(keys.prefix, after=keys.after, until=keys.until)
        return
    yield from _together(storage, ranges, threads)


def _together(
    storage: Storage, ranges: Sequence[KeyRange], threads: int
) -> Iterator[pa.RecordBatch]:
    ready: Queue[pa.RecordBatch | BaseException | None] = Queue(threads * WAITING)
    given_up = Event()

    def put(item: pa.RecordBatch | BaseException | None) -> bool:
        while not given_up.is_set():
            try:
                ready.put(item, timeout=LOOK_EVERY)
            except Full:
                continue
            return True
        return False

    def listed(keys: KeyRange) -> None:
        try:
            for batch in storage.batches(keys.prefix, after=keys.after, until=keys.until):
                if not put(batch):
                    return
            put(None)
        except BaseException as error:
            put(error)

    with ThreadPoolExecutor(threads) as pool:
        try:
            for keys in ranges:
                pool.submit(listed, keys)
            left = len(ranges)
            while left:
                item = ready.get()
                if isinstance(item, BaseException):
                    raise item
                if item is None:
                    left -= 1
                else:
                    yield item
        finally:
            # Also if the consumer stops early.
            given_up.set()
            pool.shutdown(cancel_futures=True)
