"""Trees: the entries of a commit, read through its metarange."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import pyarrow as pa

from reclaim.catalog.content import ranges
from reclaim.catalog.content.entries import COLUMNS, Entry
from reclaim.catalog.content.ranges import RangeInfo
from reclaim.errors import Corrupt, NotFound
from reclaim.storage import Storage

T = TypeVar("T")

CACHED_METARANGES = 16
CACHED_RANGES = 64


class ContainerReader:
    """Reader of ranges and metaranges. Both are immutable, so recent files are cached in memory."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._metaranges: _Recent[list[RangeInfo]] = _Recent(CACHED_METARANGES)
        self._ranges: _Recent[pa.Table] = _Recent(CACHED_RANGES)
        self.ranges_read = 0

    def tree(self, metarange: str) -> Tree:
        """Tree of a metarange; an empty address is the empty tree."""
        if not metarange:
            return Tree([], self)
        return Tree(self._metaranges.get(metarange, self._read_metarange), self)

    def rows(self, info: RangeInfo) -> pa.Table:
        def read(address: str) -> pa.Table:
            self.ranges_read += 1
            return ranges.decode_range(self._read(address), info)

        return self._ranges.get(info.address, read)

    def _read_metarange(self, address: str) -> list[RangeInfo]:
        return ranges.decode_metarange(self._read(address), address)

    def _read(self, address: str) -> bytes:
        try:
            return self._storage.get(address)
        except NotFound as error:
            raise Corrupt(
                f"the container {address} is missing",
                hint="restore it from a backup or another copy; nothing was changed",
            ) from error


class Tree:
    """Entries of a commit in path order."""

    def __init__(self, infos: list[RangeInfo], containers: ContainerReader) -> None:
        self.ranges = infos
        self._containers = containers

    def rows(self, info: RangeInfo) -> pa.Table:
        return self._containers.rows(info)

    def get(self, path: str) -> Entry | None:
        """Entry at a path; reads at most a single range."""
        index = bisect_left(self.ranges, path, key=lambda info: info.max_path)
        if index == len(self.ranges) or self.ranges[index].min_path > path:
            return None
        table = self.rows(self.ranges[index])
        row = bisect_left(_Paths(table), path)
        if row == table.num_rows or table.column("path")[row].as_py() != path:
            return None
        return next(entries_of(table.slice(row, 1)))

    def entries(self, *, start: str = "", stop: str | None = None) -> Iterator[Entry]:
        """Entries with ``start <= path < stop``; reads only the ranges containing them."""
        first = bisect_left(self.ranges, start, key=lambda info: info.max_path)
        for info in self.ranges[first:]:
            if stop is not None and info.min_path >= stop:
                return
            table = self.rows(info)
            low = bisect_left(_Paths(table), start) if info.min_path < start else 0
            high = table.num_rows
            if stop is not None and info.max_path >= stop:
                high = bisect_left(_Paths(table), stop)
            yield from entries_of(table.slice(low, high - low))


def entries_of(table: pa.Table) -> Iterator[Entry]:
    """Convert the rows of a table to entries."""
    columns = []
    for name in COLUMNS:
        column = table.column(name)
        if name == "created_at":
            # The same eight bytes. A cast would make Arrow load all its functions.
            chunks = [chunk.view(pa.int64()) for chunk in column.chunks]
            column = pa.chunked_array(chunks, pa.int64())
        columns.append(column.to_pylist())
    for values in zip(*columns, strict=True):
        yield Entry.from_values(*values)


class _Paths:
    """Paths of a table as a sequence for bisection, without converting all of them to text."""

    def __init__(self, table: pa.Table) -> None:
        self._column = table.column("path")

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, index: int) -> str:
        return str(self._column[index].as_py())


class _Recent(Generic[T]):
    """Cache of the most recently used values by address; thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[str, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, address: str, read: Callable[[str], T]) -> T:
        with self._lock:
            if address in self._values:
                self._values.move_to_end(address)
                return self._values[address]
        value = read(address)
        with self._lock:
            self._values[address] = value
            while len(self._values) > self._most:
                self._values.popitem(last=False)
        return value
