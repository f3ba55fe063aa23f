"""Runs that start from a checkpoint and leave one: reading ranges, and what is carried on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.spark.work.lines import Tables, lines_of, parts_in, stem_in, storage_of
from reclaim.engine.spark.work.parts import read_parts
from reclaim.engine.tasks import index, looking_up, tally
from reclaim.engine.tasks.deleting import FAILED
from reclaim.engine.tasks.index import ADDRESSES, CountedReads, IndexCounts
from reclaim.engine.tasks.parts import (
    Part,
    Place,
    copy_part,
    open_storage,
    read_part,
    write_part,
    write_parts,
)
from reclaim.engine.tasks.reading import LIVE
from reclaim.engine.tasks.tally import CONTAINERS as CONTAINERS_READ
from reclaim.stores.format import CONTAINERS, Format

ROWS_AT_ONCE = 2_000_000
"""Entries that a task holds before it writes a part of the index."""
FLAGGED = CONTAINERS.append(pa.field("known", pa.bool_(), nullable=False))
"""Containers, and whether the index has them already."""
RANGE_FILE = "ranges"
"""The group of files with the ranges that were read."""


def write_index(format: Format, edges: Sequence[str], place: Place, containers: Tables) -> Tables:
    """Read the live containers that are not known, and write their entries into the index."""
    own, storage, counts = open_storage(place.url), storage_of(format), IndexCounts()
    parts: list[Part] = []
    waiting: list[pa.Table] = []
    ranges: list[str] = []

    def write() -> None:
        parts.extend(index.write_index(own, stem_in(place), waiting, edges))
        waiting.clear()

    rows_waiting = 0
    for table in containers:
        known = table.filter(table.column("known")).column("address").combine_chunks()
        live = table.select(CONTAINERS.names)
        for address, rows in index.read_live(format, storage, live, known, counts):
            tally.count(CONTAINERS_READ, 1)
            ranges.append(address)
            waiting.append(rows)
            rows_waiting += rows.num_rows
            if rows_waiting >= ROWS_AT_ONCE:
                write()
                rows_waiting = 0
    write()
    names = pa.table({"address": pa.array(ranges, pa.string())}, schema=ADDRESSES)
    written = write_parts(own, stem_in(place.below("ranges")), [names])
    parts += [replace(part, group=RANGE_FILE) for part in written]
    yield lines_of(parts, asdict(counts))


def read_taken(url: str, files: Tables) -> Tables:
    """The addresses that a journal says are gone."""
    for table in read_parts(url, files):
        gone = table.filter(pc.not_equal(table.column("outcome"), FAILED))
        yield gone.select(["address"]).cast(ADDRESSES)


def count_taken(format: Format, url: str, files: Tables) -> Tables:
    """Count what a journal says is gone by partition."""
    counts: looking_up.GuardCounts = {}
    for table in read_parts(url, files):
        gone = table.filter(pc.not_equal(table.column("outcome"), FAILED))
        looking_up.add_guards(counts, looking_up.count_guards(format, gone))
    yield lines_of([], {"guards": counts})


def write_carried(
    format: Format, final: frozenset[str] | None, place: Place, rows: Tables
) -> Tables:
    """Write down addresses; with ``final`` those alone that lie in these partitions."""
    kept = (
        (table if final is None else looking_up.in_guards(format, table, final)).cast(ADDRESSES)
        for table in rows
    )
    yield lines_of(write_parts(open_storage(place.url), stem_in(place), kept))


def copy(url: str, place: Place, live: bool, files: Tables) -> Tables:
    """Copy parts; of containers the live ones alone."""
    source, target = CountedReads(open_storage(url)), open_storage(place.url)
    copied = []
    for part in parts_in(files):
        address = f"{stem_in(place)}.parquet"
        if not live:
            copied.append(copy_part(source, target, part, address))
            continue
        rows = read_part(source, part)
        rows = rows.filter(pc.equal(rows.column("cause"), LIVE))
        if rows.num_rows:
            copied.append(write_part(target, address, rows))
    yield lines_of(copied, {"bytes": source.size})
