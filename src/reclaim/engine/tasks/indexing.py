"""Indexing: entries of containers written down by partition, so that each is read once.

A part of the index is sorted by partition, and its group names the first and the last of them: who
needs some partitions reads the parts that may have them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks.parts import ROWS, Part, write_part
from reclaim.engine.tasks.reading import LIVE, READ, UNREADABLE, is_there, reader_of
from reclaim.storage import Storage
from reclaim.stores.format import INDEXED, NO_READ, Format, IndexesEntries

INDEX = pa.schema(
    [
        field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field
        for field in INDEXED
    ]
)
"""Entries as the files of an index have them, and as Spark takes them."""

BETWEEN = " "
"""Stands between the first and the last partition in the group of a part."""


@dataclass(slots=True)
class CountedReads:
    """A storage that containers are read from, counting what is read."""

    storage: Storage
    size: int = 0
    reads: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)
    """Containers may be read by several threads."""

    def get(self, address: str) -> bytes:
        data = self.storage.get(address)
        with self._lock:
            self.size += len(data)
            self.reads += 1
        return data


@dataclass(slots=True)
class IndexCounts:
    """How much there was to index, by the lists of containers, and how much was read."""

    expected: int = 0
    expected_entries: int = 0
    containers: int = 0
    entries: int = 0
    """As they were decoded."""
    rows: int = 0
    """Entries for the index: without those of objects that lie elsewhere."""
    bytes: int = 0
    ranges: int = 0

    def add(self, other: IndexCounts) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(slots=True)
class DeadCounts:
    """The entries that were read of dead containers, and the partitions in which they lie."""

    unread: int = 0
    """Containers that could not be read: what they list is not known."""
    damaged: int = 0
    """Those of them that are there."""
    bytes: int = 0
    ranges: int = 0
    partitions: set[str] = field(default_factory=set)

    def add(self, other: DeadCounts) -> None:
        self.unread += other.unread
        self.damaged += other.damaged
        self.bytes += other.bytes
        self.ranges += other.ranges
        self.partitions |= other.partitions


def index_containers(
    format: Format, storage: Storage, containers: pa.Table, counts: IndexCounts
) -> Iterator[pa.Table]:
    """Entries of live containers, as ``INDEX``. One that cannot be read stops the run."""
    assert isinstance(format, IndexesEntries)
    live = containers.filter(pc.equal(containers.column("cause"), LIVE))
    counts.expected += live.num_rows
    counts.expected_entries += pc.sum(live.column("entries")).as_py() or 0
    by_name = pc.equal(live.column("detail"), NO_READ)
    named = live.filter(by_name)
    counts.containers += named.num_rows
    counts.entries += pc.sum(named.column("entries")).as_py() or 0
    reads = CountedReads(storage)
    for container in live.filter(pc.invert(by_name)).to_pylist():
        rows, entries = format.indexed(reads, container)
        counts.containers += 1
        counts.entries += entries
        counts.rows += rows.num_rows
        yield rows.cast(INDEX)
    counts.bytes += reads.size
    counts.ranges += reads.reads


def bucket_of(partitions: pa.ChunkedArray, edges: Sequence[str]) -> pa.ChunkedArray:
    """The number of the bucket of each partition; ``edges`` are the first ones of buckets."""
    unique = pc.unique(partitions)
    numbers = [bisect_right(edges, name) for name in unique.to_pylist()]
    return pa.array(numbers, pa.int32()).take(pc.index_in(partitions, unique))


def write_index(storage: Storage, stem: str, tables: Iterable[pa.Table]) -> list[Part]:
    """Write entries down, sorted by partition, in parts of a bounded size."""
    whole = pa.concat_tables([INDEX.empty_table(), *(table.cast(INDEX) for table in tables)])
    whole = whole.sort_by([("partition", "ascending"), ("range", "ascending")])
    parts = []
    for number, start in enumerate(range(0, whole.num_rows, ROWS)):
        rows = whole.slice(start, ROWS)
        part = write_part(storage, f"{stem}-{number}.parquet", rows)
        first, last = (rows.column("partition")[at].as_py() for at in (0, -1))
        parts.append(replace(part, group=f"{first}{BETWEEN}{last}"))
    return parts


def span(part: Part) -> tuple[str, str]:
    """The first and the last partition of a part of the index."""
    first, _, last = part.group.partition(BETWEEN)
    return first, last


def read_dead(
    format: Format, storage: Storage, containers: pa.Table, counts: DeadCounts
) -> Iterator[pa.Table]:
    """Dead containers and what they list, as ``READ``; what cannot be read is counted."""
    dead = containers.filter(pc.not_equal(containers.column("cause"), LIVE))
    reads = CountedReads(storage)
    for container in dead.to_pylist():
        cause = pa.scalar(container["cause"], pa.int32())
        itself = [container["address"], None, container["kind"], 0, container["cause"]]
        yield pa.table([pa.array([v], f.type) for v, f in zip(itself, READ, strict=True)], READ)
        try:
            if container["detail"] == NO_READ:
                # One that lists nothing is empty, or could not be read.
                if not container["entries"]:
                    reader_of(format).containers(reads, container["address"])
                continue
            entries = reader_of(format).entries(reads, container, paths=True)
        except UNREADABLE:
            counts.unread += 1
            counts.damaged += is_there(storage, container["address"])
            continue
        rows = entries.num_rows
        described = format.describe(entries.column("address").combine_chunks())
        counts.partitions |= set(pc.unique(pc.struct_field(described, "guard")).to_pylist())
        columns = (
            entries.column("address"),
            entries.column("path"),
            pa.nulls(rows, pa.string()),
            pa.nulls(rows, pa.int64()),
            pa.repeat(cause, rows),
        )
        yield pa.table(list(columns), schema=READ)
    counts.bytes += reads.size
    counts.ranges += reads.reads
