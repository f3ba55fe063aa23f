"""The index of lifecycle runs: entries of ranges by partition, so that each range is read once.

Its parts are sorted by partition. The group of a part names the first and the last of them, and the
first and the last day on which its entries were created: other parts need not be read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.lifecycle import LifecycleRead
from reclaim.engine.tasks.indexing import CountedReads
from reclaim.engine.tasks.lifecycle import INDEX, ROWS, day_number, days_of, match, numpy_of
from reclaim.engine.tasks.lifecycle_ranges import RangeBits
from reclaim.engine.tasks.parts import ROWS as ROWS_OF_A_PART
from reclaim.engine.tasks.parts import Part, read_part, write_part
from reclaim.policy.lifecycle.classes import HOLDER, NEVER, BranchClasses
from reclaim.storage import Storage
from reclaim.storage.ahead import read_ahead
from reclaim.stores.format import Format, IndexesEntries, ReadsBytes

FEW_PIECES = 16
"""A range whose entries change their partition more often is sorted row by row."""

MANY_CODES = 1_000_000
"""Rows of which the pieces would have more of them together are cut as strings."""

WRITTEN = pa.schema(
    [
        field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field
        for field in INDEX
    ]
)
"""The index as its files have it."""

FOUND = pa.schema(
    [
        pa.field("partition", pa.string(), nullable=False),
        pa.field("address", pa.string(), nullable=False),
    ]
)
"""Addresses that have to be decided on, and where they lie."""


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
        """The span of rows that are sorted by partition."""
        first, last = (rows.column("partition")[at].as_py() for at in (0, -1))
        days = pc.min_max(rows.column("day")).as_py()
        return cls(first, last, days["min"], days["max"])

    def __str__(self) -> str:
        return f"{self.first} {self.last} {self.first_day} {self.last_day}"


def read_ranges(
    format: Format, reads: CountedReads, ranges: pa.Table, counts: LifecycleRead
) -> Iterator[tuple[int, pa.Table]]:
    """The bitmap of each range with its entries, as ``INDEX``. One that cannot be read stops the
    run."""
    assert isinstance(format, IndexesEntries)
    counts.expected += ranges.num_rows
    counts.expected_entries += pc.sum(ranges.column("entries")).as_py() or 0
    before = reads.size

    def entries(one: dict[str, Any]) -> int:
        count: int = one["entries"]
        return count

    read = read_ahead(
        reads.storage, partial(_read_range, format, reads), ranges.to_pylist(), entries=entries
    )
    for bits, entries_read, rows in read:
        # Each counts as it was read; what lies elsewhere is not ours, and in no row.
        counts.ranges += 1
        counts.entries += entries_read
        yield bits, rows
    counts.bytes += reads.size - before


def _read_range(
    format: IndexesEntries, reads: CountedReads, one: dict[str, Any]
) -> tuple[int, int, pa.Table]:
    rows, entries = format.indexed(reads, one)
    columns = [
        rows.column("partition"),
        rows.column("address"),
        rows.column("path"),
        days_of(rows.column("created_at")),
        rows.column("range"),
    ]
    return one["bits"], entries, pa.table(columns, schema=INDEX)


def write_index(
    storage: Storage, stem: str, tables: Iterable[pa.Table], edges: Sequence[str]
) -> list[Part]:
    """Write entries down by partition, each bucket in parts of its own; ``edges`` are the first
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
    """The rows of a part of the index, as ``INDEX``."""
    return read_part(storage, part, coded=("partition", "range")).unify_dictionaries()


def _by_partition(tables: Iterable[pa.Table]) -> Sequence[tuple[str, pa.Table]]:
    """Partitions in order, each with some of its entries. Those of a range often lie in one or a
    few: then whole pieces are put in order, which takes much less time than rows.

    As ``INDEX``, or all of them as ``WRITTEN``: sorted rows have a piece for each partition, and
    each brings the codes of all partitions and ranges along when they are put together.
    """
    found: list[tuple[str, pa.Table]] = []
    mixed: list[pa.Table] = []
    for table in tables:
        pieces = list(_pieces(table))
        if len(pieces) > FEW_PIECES:
            mixed.append(table)
        else:
            found += pieces
    if mixed:
        rows = pa.concat_tables(mixed).combine_chunks()
        rows = rows.take(_order(rows.column("partition")))
        runs = list(_runs(rows))
        if len(runs) * _count_codes(rows) > MANY_CODES:
            rows = rows.cast(WRITTEN)
            found = [(name, piece.cast(WRITTEN)) for name, piece in found]
        found += ((name, rows.slice(start, count)) for name, start, count in runs)
    return sorted(found, key=itemgetter(0))


def _pieces(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """The pieces of rows that have one partition each."""
    for name, start, count in _runs(rows):
        yield name, rows.slice(start, count)


def _runs(rows: pa.Table) -> Iterator[tuple[str, int, int]]:
    """The partitions of these pieces, where each begins, and how many rows it has."""
    if not rows.num_rows:
        return
    names, codes = _coded(rows.column("partition"))
    cuts = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
    for start, end in pairwise(cuts):
        yield names[codes[start]], start, end - start


def _count_codes(rows: pa.Table) -> int:
    """How many different partitions and ranges rows have."""
    return sum(len(_coded(rows.column(name))[0]) for name in ("partition", "range"))


def _coded(column: pa.ChunkedArray) -> tuple[list[str], Any]:
    """The different values of a column, and for each row the number of its own."""
    whole = column.combine_chunks()
    return whole.dictionary.to_pylist(), numpy_of(whole.indices, np.int64)


def _order(partitions: pa.ChunkedArray) -> pa.Array:
    """The order in which partitions are sorted; there are few of them, and each very often."""
    names, codes = _coded(partitions)
    ranks = np.argsort(np.argsort(np.array(names, dtype=object)))
    return pa.array(np.argsort(ranks[codes], kind="stable"))


def find_matched(classes: BranchClasses, bits: int, rows: pa.Table) -> pa.Table:
    """The entries of one range that a rule matches on some branch, as ``FOUND``."""
    matched = match(classes, rows.column("path"), numpy_of(rows.column("day"), np.int32))
    return rows.filter(pa.array((matched & bits) != 0)).select(FOUND.names).cast(FOUND)


def find_rows_matched(classes: BranchClasses, ranges: RangeBits, rows: pa.Table) -> pa.Table:
    """The entries of an index that a rule matches on some branch, as ``FOUND``."""
    matched = match(classes, rows.column("path"), numpy_of(rows.column("day"), np.int32))
    bits = ranges.bits[ranges.find(rows.column("range"))]
    return rows.filter(pa.array((matched & bits) != 0)).select(FOUND.names).cast(FOUND)


@dataclass(frozen=True, slots=True)
class RuleChanges:
    """The rules and ranges of now and of the last finished run."""

    classes: BranchClasses
    ranges: RangeBits
    earlier: BranchClasses
    known: RangeBits
    """The ranges that the index has."""

    @property
    def comparable(self) -> bool:
        """Whether a bit means the same in both."""
        return self.classes.named == self.earlier.named

    def find(self, rows: pa.Table) -> pa.Table:
        """Entries of the index that a rule matches on some branch, and did not match then."""
        days, paths = numpy_of(rows.column("day"), np.int32), rows.column("path")
        bits = self.ranges.bits[self.ranges.find(rows.column("range"))]
        matched = match(self.classes, paths, days) & bits
        if self.comparable:
            then = self.known.bits[self.known.find(rows.column("range"))]
            matched &= ~(match(self.earlier, paths, days) & then)
        return rows.filter(pa.array(matched != 0)).select(FOUND.names).cast(FOUND)


def find_windows(now: BranchClasses, then: BranchClasses) -> list[tuple[int, int]]:
    """Days, the first and the last, of which entries may be matched now that were not then, if
    the same reaches them."""
    windows = set()
    for rule in now.rules:
        for number, latest in enumerate(rule.dates):
            if latest == NEVER:
                continue
            known = [
                earlier.dates[number]
                for earlier in then.rules
                if rule.prefix.startswith(earlier.prefix) and earlier.dates[number] != NEVER
            ]
            first = day_number(max(known)) + 1 if known else day_number(NEVER)
            if first <= day_number(latest):
                windows.add((first, day_number(latest)))
    return sorted(windows)


def in_windows(parts: Iterable[Part], windows: Sequence[tuple[int, int]]) -> list[Part]:
    """The parts of an index that may have entries of some days."""
    return [
        part
        for part, span in ((part, Span.of(part)) for part in parts)
        if any(span.first_day <= last and first <= span.last_day for first, last in windows)
    ]


def select_rows(ranges: RangeBits, rows: pa.Table) -> pa.Table:
    """Entries of the index as ``ROWS``, of the ranges that something reaches."""
    at = ranges.find(rows.column("range"))
    columns = [
        rows.column("address"),
        rows.column("path"),
        rows.column("day"),
        pa.array(ranges.bits[at], pa.int64()),
        pa.array(ranges.holders[at], pa.int32()),
        pa.array(ranges.branches[at], pa.int32()),
    ]
    found = pa.table(columns, schema=ROWS)
    return found.filter(pc.not_equal(found.column("bits"), 0))


def in_partitions(rows: pa.Table, wanted: Callable[[str], bool]) -> pa.Table:
    """The rows that lie in some partitions."""
    names, codes = _coded(rows.column("partition"))
    among = np.array([wanted(name) for name in names], np.bool_)
    return rows.filter(pa.array(among[codes])) if len(names) else rows


def overlapping(parts: Iterable[Part], partitions: Iterable[str]) -> list[Part]:
    """The parts of an index that may have entries in some partitions."""
    wanted = sorted(partitions)
    found = []
    for part in parts:
        span = Span.of(part)
        at = bisect_left(wanted, span.first)
        if at < len(wanted) and wanted[at] <= span.last:
            found.append(part)
    return found


def find_changed_parts(
    changes: RuleChanges, ranges: pa.Table, parts: Sequence[Part]
) -> Sequence[Part]:
    """The parts of an index that may have what is matched now and was not then.

    All of them, unless the same branches reach each range and only dates have moved. What else
    holds a range now makes no difference: it only ever keeps.
    """
    if not changes.comparable:
        return parts
    at = changes.known.find(ranges.column("address"))
    is_known = at < len(changes.known.addresses)
    bits = numpy_of(ranges.column("bits"), np.int64)
    gained = bits & ~changes.known.bits[at] & ~HOLDER
    if (is_known & (gained != 0)).any():
        return parts
    return in_windows(parts, find_windows(changes.classes, changes.earlier))
