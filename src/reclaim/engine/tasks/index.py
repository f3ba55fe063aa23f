"""The index: the entries of every range read by any run, by partition, so each range is read once.

Its parts are sorted by partition. The group of a part has its first and last partition, and the
first and last creation day of its entries: other parts need not be read. Ranges never change, so an
entry stays valid as long as its range is live.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, pairwise
from operator import itemgetter
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks.lifecycle import days_of, numpy_of
from reclaim.engine.tasks.parts import ROWS as ROWS_OF_A_PART
from reclaim.engine.tasks.parts import Part, read_part, write_part
from reclaim.engine.tasks.reading import LIVE
from reclaim.storage import Storage
from reclaim.storage.read_ahead import read_ahead
from reclaim.stores.format import CODED, NO_READ, Format, IndexesEntries, ReadsBytes

FEW_PIECES = 16
"""A range whose entries change partition more often is sorted row by row."""

MANY_CODES = 1_000_000
"""If the pieces of a table would have more codes in total, it is cut as strings."""

INDEX = pa.schema(
    [
        pa.field("partition", CODED, nullable=False),
        pa.field("address", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("day", pa.int32(), nullable=False),
        pa.field("range", CODED, nullable=False),
    ]
)
"""Entries of ranges; in a file of the index all columns except the day are strings."""

WRITTEN = pa.schema(
    [
        field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field
        for field in INDEX
    ]
)
"""The index as stored in files."""


@dataclass(slots=True)
class CountedReads:
    """A storage to read containers from; counts the bytes read."""

    storage: Storage
    size: int = 0
    reads: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)
    """Several threads may read containers."""

    def get(self, address: str) -> bytes:
        data = self.storage.get(address)
        with self._lock:
            self.size += len(data)
            self.reads += 1
        return data


@dataclass(slots=True)
class IndexCounts:
    """Size of the containers to index, according to their lists, and of those read."""

    known: int = 0
    known_entries: int = 0
    """Containers already in the index, and their entries."""
    expected: int = 0
    expected_entries: int = 0
    containers: int = 0
    entries: int = 0
    """Decoded entries."""
    rows: int = 0
    """Entries for the index, without those of objects outside the store."""
    bytes: int = 0
    ranges: int = 0
    """Containers read, not taken by name."""

    def add(self, other: IndexCounts) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(frozen=True, slots=True)
class Span:
    """The bounds of the entries in a part of the index."""

    first: str
    last: str
    first_day: int
    last_day: int

    @classmethod
    def of(cls, part: Part) -> Span:
        first, last, first_day, last_day = part.group.split(" ")
        return cls(first, last, int(first_day), int(last_day))

    @classmethod
    def of_rows(cls, rows: pa.Table) -> Span:
        """Return the span of rows sorted by partition."""
        first, last = (rows.column("partition")[at].as_py() for at in (0, -1))
        days = pc.min_max(rows.column("day")).as_py()
        return cls(first, last, days["min"], days["max"])

    def __str__(self) -> str:
        return f"{self.first} {self.last} {self.first_day} {self.last_day}"


def read_live(
    format: Format, storage: Storage, containers: pa.Table, known: pa.Array, counts: IndexCounts
) -> Iterator[tuple[str, pa.Table]]:
    """Yield the address of each unknown live container, with its entries as ``INDEX``.

    An unreadable container stops the run. Containers that need no reading count as read.
    """
    live = containers.filter(pc.equal(containers.column("cause"), LIVE))
    is_known = pc.is_in(live.column("address"), known)
    counts.known += pc.sum(is_known).as_py() or 0
    counts.known_entries += _entries(live.filter(is_known))
    live = live.filter(pc.invert(is_known))
    counts.expected += live.num_rows
    counts.expected_entries += _entries(live)
    by_name = pc.equal(live.column("detail"), NO_READ)
    named = live.filter(by_name)
    counts.containers += named.num_rows
    counts.entries += _entries(named)
    yield from read_ranges(format, CountedReads(storage), live.filter(pc.invert(by_name)), counts)


def _entries(containers: pa.Table) -> int:
    count: int = pc.sum(containers.column("entries")).as_py() or 0
    return count


def read_ranges(
    format: Format, reads: CountedReads, ranges: pa.Table, counts: IndexCounts
) -> Iterator[tuple[str, pa.Table]]:
    """Yield the address of each range with its entries, as ``INDEX``."""
    assert isinstance(format, IndexesEntries)
    before = reads.size, reads.reads

    def entries_of(container: dict[str, Any]) -> int:
        count: int = container["entries"]
        return count

    read = read_ahead(
        reads.storage, partial(_read_range, format, reads), ranges.to_pylist(), entries=entries_of
    )
    for address, entries, rows in read:
        # Each entry counts as read; entries outside the store are in no row.
        counts.containers += 1
        counts.entries += entries
        counts.rows += rows.num_rows
        yield address, rows
    counts.bytes += reads.size - before[0]
    counts.ranges += reads.reads - before[1]


def _read_range(
    format: IndexesEntries, reads: CountedReads, container: dict[str, Any]
) -> tuple[str, int, pa.Table]:
    rows, entries = format.indexed(reads, container)
    columns = [
        rows.column("partition"),
        rows.column("address"),
        rows.column("path"),
        days_of(rows.column("created_at")),
        rows.column("range"),
    ]
    return container["address"], entries, pa.table(columns, schema=INDEX)


def write_index(
    storage: Storage, stem: str, tables: Iterable[pa.Table], edges: Sequence[str]
) -> list[Part]:
    """Write entries by partition, each bucket in parts of its own; ``edges`` are the first
    partitions of buckets."""
    parts: list[Part] = []
    buckets = groupby(_by_partition(tables), key=lambda piece: bisect_right(edges, piece[0]))
    for _, pieces in buckets:
        whole = pa.concat_tables([piece for _, piece in pieces])
        for start in range(0, whole.num_rows, ROWS_OF_A_PART):
            rows = whole.slice(start, ROWS_OF_A_PART).combine_chunks()
            part = write_part(storage, f"{stem}-{len(parts)}.parquet", rows, decoded=True)
            parts.append(replace(part, group=str(Span.of_rows(rows))))
    return parts


def read_index(storage: ReadsBytes, part: Part) -> pa.Table:
    """Return the rows of a part of the index, as ``INDEX``."""
    return read_part(storage, part, coded=("partition", "range")).unify_dictionaries()


def _by_partition(tables: Iterable[pa.Table]) -> Sequence[tuple[str, pa.Table]]:
    """Return partitions in order, each with some of its entries. The entries of a range are often
    in a few partitions: then whole pieces are ordered, which is much faster than ordering rows.

    As ``INDEX``, or all as ``WRITTEN``: sorted rows have a piece for each partition, and each piece
    would carry the codes of all partitions and ranges.
    """
    pairs: list[tuple[str, pa.Table]] = []
    mixed: list[pa.Table] = []
    for table in tables:
        pieces = list(_pieces(table))
        if len(pieces) > FEW_PIECES:
            mixed.append(table)
        else:
            pairs += pieces
    if mixed:
        rows = pa.concat_tables(mixed).combine_chunks()
        rows = rows.take(_order(rows.column("partition")))
        runs = list(_runs(rows))
        if len(runs) * _count_codes(rows) > MANY_CODES:
            rows = rows.cast(WRITTEN)
            pairs = [(name, piece.cast(WRITTEN)) for name, piece in pairs]
        pairs += ((name, rows.slice(start, count)) for name, start, count in runs)
    return sorted(pairs, key=itemgetter(0))


def _pieces(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield runs of rows with the same partition."""
    for name, start, count in _runs(rows):
        yield name, rows.slice(start, count)


def _runs(rows: pa.Table) -> Iterator[tuple[str, int, int]]:
    """Yield the partition of each run, its start, and its number of rows."""
    if not rows.num_rows:
        return
    names, codes = _coded(rows.column("partition"))
    cuts = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
    for start, end in pairwise(cuts):
        yield names[codes[start]], start, end - start


def _count_codes(rows: pa.Table) -> int:
    """Return the number of distinct partitions and ranges."""
    return sum(len(_coded(rows.column(name))[0]) for name in ("partition", "range"))


def _coded(column: pa.ChunkedArray) -> tuple[list[str], Any]:
    """Return the distinct values of a column, and the code of each row."""
    whole = column.combine_chunks()
    return whole.dictionary.to_pylist(), numpy_of(whole.indices, np.int64)


def _order(partitions: pa.ChunkedArray) -> pa.Array:
    """Return the order of rows sorted by partition; there are few partitions, each in many rows."""
    names, codes = _coded(partitions)
    ranks = np.argsort(np.argsort(np.array(names, dtype=object)))
    return pa.array(np.argsort(ranks[codes], kind="stable"))


def in_partitions(rows: pa.Table, wanted: Callable[[str], bool]) -> pa.Table:
    """Return the rows in some partitions."""
    names, codes = _coded(rows.column("partition"))
    among = np.array([wanted(name) for name in names], np.bool_)
    return rows.filter(pa.array(among[codes])) if len(names) else rows


def overlapping(parts: Iterable[Part], partitions: Iterable[str]) -> list[Part]:
    """Return the parts of an index with possible entries in some partitions."""
    wanted = sorted(partitions)
    matching = []
    for part in parts:
        span = Span.of(part)
        at = bisect_left(wanted, span.first)
        if at < len(wanted) and wanted[at] <= span.last:
            matching.append(part)
    return matching
