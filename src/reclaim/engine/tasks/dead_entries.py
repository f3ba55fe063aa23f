"""Entries of dead containers, as far as they can still be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks.index import CountedReads
from reclaim.engine.tasks.reading import LIVE, READ, UNREADABLE, is_there, reader_of
from reclaim.storage import Storage
from reclaim.stores.format import NO_READ, Format


@dataclass(slots=True)
class DeadCounts:
    """Entries read from dead containers, and their partitions."""

    unread: int = 0
    """Unreadable containers: their entries are unknown."""
    damaged: int = 0
    """Unreadable containers that still exist."""
    bytes: int = 0
    ranges: int = 0
    partitions: set[str] = field(default_factory=set)

    def add(self, other: DeadCounts) -> None:
        self.unread += other.unread
        self.damaged += other.damaged
        self.bytes += other.bytes
        self.ranges += other.ranges
        self.partitions |= other.partitions


def read_dead(
    format: Format, storage: Storage, containers: pa.Table, counts: DeadCounts
) -> Iterator[pa.Table]:
    """Read dead containers and their entries, as ``READ``; unreadable containers are counted."""
    dead = containers.filter(pc.not_equal(containers.column("cause"), LIVE))
    reads = CountedReads(storage)
    for container in dead.to_pylist():
        cause = pa.scalar(container["cause"], pa.int32())
        itself = [container["address"], None, container["kind"], 0, container["cause"]]
        yield pa.table([pa.array([v], f.type) for v, f in zip(itself, READ, strict=True)], READ)
        try:
            if container["detail"] == NO_READ:
                # A container without entries is empty or unreadable.
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
