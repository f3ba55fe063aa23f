"""Incremental runs: read ranges, and carry addresses to the next run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks import index, lookup, tally
from reclaim.engine.tasks.dead_entries import DeadCounts, read_dead
from reclaim.engine.tasks.deleting import FAILED
from reclaim.engine.tasks.index import IndexCounts
from reclaim.engine.tasks.parts import (
    ADDRESSES,
    Part,
    Place,
    task_storage,
    write_parts,
)
from reclaim.engine.tasks.tally import CONTAINERS as CONTAINERS_READ
from reclaim.engine.work.lines import Tables, lines_of, stem_in, storage_of
from reclaim.engine.work.parts import read_parts
from reclaim.stores.format import CONTAINERS, Format

ROWS_AT_ONCE = 2_000_000
"""Entries a task keeps in memory before it writes a part of the index."""
KNOWN = ADDRESSES.append(pa.field("known", pa.bool_(), nullable=False))
"""Containers in the index already."""
RANGE_FILE = "ranges"
"""The group of files with the ranges read."""


def flag(tables: Tables) -> Tables:
    """Yield addresses as ``KNOWN``."""
    for table in tables:
        known = pa.repeat(pa.scalar(True), table.num_rows)
        yield pa.table([table.column("address"), known], schema=KNOWN)


def write_index(format: Format, edges: Sequence[str], place: Place, containers: Tables) -> Tables:
    """Read the unknown live containers, and write their entries to the index."""
    own, storage, counts = task_storage(place.url), storage_of(format), IndexCounts()
    parts: list[Part] = []
    waiting: list[pa.Table] = []
    ranges: list[str] = []

    def write() -> None:
        parts.extend(index.write_index(own, stem_in(place), waiting, edges))
        waiting.clear()

    rows_waiting = 0
    for table in containers:
        known = table.slice(0, 0)
        if "known" in table.column_names:
            known = table.filter(pc.is_valid(table.column("known")))
        names = known.column("address").combine_chunks()
        live = table.select(CONTAINERS.names)
        for address, rows in index.read_live(format, storage, live, names, counts):
            tally.count(CONTAINERS_READ, 1)
            ranges.append(address)
            waiting.append(rows)
            rows_waiting += rows.num_rows
            if rows_waiting >= ROWS_AT_ONCE:
                write()
                rows_waiting = 0
    write()
    read = pa.table({"address": pa.array(ranges, pa.string())}, schema=ADDRESSES)
    written = write_parts(own, stem_in(place.below("ranges")), [read])
    parts += [replace(part, group=RANGE_FILE) for part in written]
    yield lines_of(parts, asdict(counts))


def read_taken(url: str, files: Tables) -> Tables:
    """Yield the addresses deleted according to a journal."""
    for table in read_parts(url, files):
        gone = table.filter(pc.not_equal(table.column("outcome"), FAILED))
        yield gone.select(["address"]).cast(ADDRESSES)


def count_taken(format: Format, url: str, files: Tables) -> Tables:
    """Count deleted objects of a journal by partition."""
    counts: lookup.GuardCounts = {}
    for table in read_parts(url, files):
        gone = table.filter(pc.not_equal(table.column("outcome"), FAILED))
        lookup.add_guards(counts, lookup.count_guards(format, gone))
    yield lines_of([], {"guards": counts})


def write_carried(
    format: Format, final: frozenset[str] | None, place: Place, rows: Tables
) -> Tables:
    """Write addresses; with ``final`` only those in these partitions."""
    kept = (
        (table if final is None else lookup.in_guards(format, table, final)).cast(ADDRESSES)
        for table in rows
    )
    yield lines_of(write_parts(task_storage(place.url), stem_in(place), kept))


def write_dead(format: Format, place: Place, containers: Tables) -> Tables:
    """Write the entries of dead containers."""
    storage, counts = storage_of(format), DeadCounts()

    def listed() -> Tables:
        for table in containers:
            yield from read_dead(format, storage, table, counts)

    parts = list(write_parts(task_storage(place.url), stem_in(place), listed()))
    report = {
        "unread": counts.unread,
        "damaged": counts.damaged,
        "bytes": counts.bytes,
        "ranges": counts.ranges,
        "partitions": sorted(counts.partitions),
    }
    yield lines_of(parts, report)
