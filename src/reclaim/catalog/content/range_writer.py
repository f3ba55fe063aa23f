"""Writing the ranges of a new commit from a tree and its changes.

Only ranges with changes are read and rewritten. A range is reused only if it belongs to a parent of
the new commit (``reusable``); all others get a new address. A commit therefore never depends on a
container under collection.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any

import pyarrow as pa

from reclaim.catalog.content import ranges
from reclaim.catalog.content.entries import COLUMNS
from reclaim.catalog.content.ranges import MAX_ROWS, RangeInfo
from reclaim.catalog.content.tree import Tree
from reclaim.catalog.staging.partitions import Partition
from reclaim.storage import Storage

BATCH = 10_000
WRITERS = 8

Change = Sequence[Any]
"""Values of ``COLUMNS``; a change without an address deletes the path."""


def rewrite(
    base: Tree,
    changes: Iterable[Change],
    *,
    storage: Storage,
    partition: Partition,
    reusable: Mapping[str, RangeInfo],
) -> tuple[list[RangeInfo], str]:
    """Apply changes, sorted by path, to a tree; return the new ranges and metarange address.

    On return, every container is written and flushed.
    """
    with ThreadPoolExecutor(WRITERS) as pool:
        sink = _Sink(storage, partition, reusable, pool)
        _merge(base, _Stream(changes), sink)
        infos = sink.finish()
    digest, data = ranges.encode_metarange(infos)
    address = partition.new_container(digest)
    storage.put(address, data)
    storage.flush([*sink.written, address])
    return infos, address


def reusable_from(trees: Iterable[Tree]) -> dict[str, RangeInfo]:
    """Ranges of the parents, by the hash of their rows."""
    return {info.digest: info for tree in trees for info in tree.ranges}


def _merge(base: Tree, stream: _Stream, sink: _Sink) -> None:
    cutter = _Cutter(sink.write)
    last = len(base.ranges) - 1
    for index, info in enumerate(base.ranges):
        # Paths after the last range belong to it, unless it is complete.
        bound = info.max_path if index < last or ranges.ends_range(info.max_path) else None
        if cutter.empty and not stream.has_through(bound):
            sink.keep(info)
            continue
        rows = base.rows(info)
        paths = rows.column("path").to_pylist()
        done = 0
        for batch in stream.through(bound):
            end = bisect_right(paths, batch.last, lo=done)
            cutter.feed(_overlay(rows.slice(done, end - done), batch))
            done = end
        cutter.feed(rows.slice(done))
    for batch in stream.through(None):
        cutter.feed(batch.live)
    cutter.finish()


class _Batch:
    """Batch of changes: rows to add, and all touched paths."""

    def __init__(self, changes: Sequence[Change]) -> None:
        self.paths = [change[0] for change in changes]
        self.last: str = self.paths[-1]
        live = [change for change in changes if change[1] is not None]
        columns: Iterable[Sequence[Any]] = zip(*live, strict=True) if live else [[]] * len(COLUMNS)
        self.live = ranges.from_columns(columns)


class _Stream:
    """Sorted changes, consumed in batches up to a bound."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self._changes = iter(changes)
        self._ahead: list[Change] = []

    def has_through(self, bound: str | None) -> bool:
        """Whether a change remains at or before ``bound`` (None means the end)."""
        self._fill()
        return bool(self._ahead) and (bound is None or self._ahead[0][0] <= bound)

    def through(self, bound: str | None) -> Iterator[_Batch]:
        while self.has_through(bound):
            end = len(self._ahead)
            if bound is not None:
                end = bisect_right(self._ahead, bound, key=lambda change: change[0])
            batch, self._ahead = self._ahead[:end], self._ahead[end:]
            yield _Batch(batch)

    def _fill(self) -> None:
        if not self._ahead:
            self._ahead = list(islice(self._changes, BATCH))


def _overlay(rows: pa.Table, batch: _Batch) -> pa.Table:
    """Rows with a batch of changes applied."""
    import pyarrow.compute as pc

    if not rows.num_rows:
        return batch.live
    touched = pc.is_in(rows.column("path"), value_set=pa.array(batch.paths, pa.string()))
    merged = pa.concat_tables([rows.filter(pc.invert(touched)), batch.live])
    return merged.sort_by("path")


class _Cutter:
    """Splits a stream of sorted rows into ranges."""

    def __init__(self, emit: Callable[[pa.Table, str, str], None]) -> None:
        self._emit = emit
        self._parts: list[pa.Table] = []
        self._count = 0
        self._first = self._last = ""

    @property
    def empty(self) -> bool:
        return self._count == 0

    def feed(self, rows: pa.Table) -> None:
        paths: list[str] = rows.column("path").to_pylist()
        start = 0
        for index, path in enumerate(paths):
            length = self._count + index + 1 - start
            if length == MAX_ROWS or ranges.ends_range(path):
                self._add(rows.slice(start, index + 1 - start), paths[start], path)
                self.finish()
                start = index + 1
        if start < len(paths):
            self._add(rows.slice(start), paths[start], paths[-1])

    def finish(self) -> None:
        if self._count:
            self._emit(pa.concat_tables(self._parts), self._first, self._last)
            self._parts, self._count = [], 0

    def _add(self, rows: pa.Table, first: str, last: str) -> None:
        if not self._count:
            self._first = first
        self._last = last
        self._parts.append(rows)
        self._count += rows.num_rows


class _Sink:
    """Collects the ranges of the new commit in order, writing ranges not found in a parent."""

    def __init__(
        self,
        storage: Storage,
        partition: Partition,
        reusable: Mapping[str, RangeInfo],
        pool: ThreadPoolExecutor,
    ) -> None:
        self._storage = storage
        self._partition = partition
        self._reusable = reusable
        self._pool = pool
        self._infos: list[RangeInfo] = []
        self._writes: list[Future[None]] = []
        self.written: list[str] = []

    def keep(self, info: RangeInfo) -> None:
        self._infos.append(info)

    def write(self, rows: pa.Table, first: str, last: str) -> None:
        import pyarrow.compute as pc

        rows = rows.combine_chunks()
        digest = ranges.digest(rows)
        if digest in self._reusable:
            self._infos.append(self._reusable[digest])
            return
        address = self._partition.new_container(digest)
        size = pc.sum(rows.column("size")).as_py()
        self._infos.append(RangeInfo(address, digest, first, last, rows.num_rows, size))
        self.written.append(address)
        while len(self._writes) >= 4 * WRITERS:
            self._writes.pop(0).result()
        self._writes.append(self._pool.submit(self._put, address, rows))

    def finish(self) -> list[RangeInfo]:
        for write in self._writes:
            write.result()
        return self._infos

    def _put(self, address: str, rows: pa.Table) -> None:
        self._storage.put(address, ranges.encode_range(rows))
