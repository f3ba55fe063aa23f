"""Runs on uncommitted data: writing the index, comparing with it, looking objects up."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks import indexing, keys, looking_up, tally
from reclaim.engine.tasks.deleting import FAILED
from reclaim.engine.tasks.indexing import INDEX, DeadCounts, IndexCounts
from reclaim.engine.tasks.judging import SURVIVORS
from reclaim.engine.tasks.keys import Key, KeysOf
from reclaim.engine.tasks.parts import (
    ROWS,
    Part,
    Place,
    copy_part,
    open_storage,
    read_part,
    write_part,
    write_parts,
)
from reclaim.engine.tasks.reading import LIVE, READ
from reclaim.engine.tasks.sampling import Sample, Within
from reclaim.engine.tasks.tally import CONTAINERS as CONTAINERS_READ
from reclaim.engine.tasks.tally import OBJECTS
from reclaim.engine.uncommitted import IndexRequest
from reclaim.engine.work.candidates import Source
from reclaim.engine.work.containers import SAMPLE
from reclaim.engine.work.lines import Tables, Work, lines_of, parts_in, stem_in, storage_of
from reclaim.engine.work.parts import read_parts
from reclaim.stores.format import Format

BUCKETED = INDEX.append(pa.field("bucket", pa.int32(), nullable=False))
COUNTS = -1
"""The bucket of rows that carry what a task has counted, as text in the place of an address."""
ADDRESSES = pa.schema([pa.field("address", pa.string(), nullable=False)])
THERE, WAITING = "there", "waiting"
"""Objects that were looked up, and addresses that something holds."""


def index_rows(format: Format, edges: Sequence[str], containers: Tables) -> Tables:
    """Entries of containers, each with its bucket; the last row has the counts."""
    storage, counts = storage_of(format), IndexCounts()
    for table in containers:
        for rows in indexing.index_containers(format, storage, table, counts):
            tally.count(CONTAINERS_READ, 1)
            bucket = indexing.bucket_of(rows.column("partition"), edges)
            yield rows.append_column(BUCKETED.field("bucket"), bucket)
    told = ["", json.dumps(asdict(counts)), None, None, "", COUNTS]
    yield pa.table([pa.array([v], f.type) for v, f in zip(told, BUCKETED, strict=True)], BUCKETED)


def index_here(request: IndexRequest, containers: Tables) -> Tables:
    """Do all of the index in one process: read a few containers, sort, and write."""
    tables = index_rows(request.format, list(request.edges), containers)
    whole = pa.concat_tables([BUCKETED.empty_table(), *(table.cast(BUCKETED) for table in tables)])
    ordered = whole.sort_by([("bucket", "ascending"), ("partition", "ascending")])
    return write_index(request.place, iter([ordered.combine_chunks()]))


def write_index(place: Place, rows: Tables) -> Tables:
    """Write entries that come sorted by bucket and partition, each bucket in parts of its own."""
    storage, counts = open_storage(place.url), IndexCounts()
    parts: list[Part] = []
    waiting: list[pa.Table] = []

    def write() -> None:
        if waiting:
            parts.extend(indexing.write_index(storage, stem_in(place), waiting))
            waiting.clear()

    bucket = COUNTS
    for table in rows:
        for number, piece in _runs(table):
            if number == COUNTS:
                for text in piece.column("address").to_pylist():
                    counts.add(IndexCounts(**json.loads(text)))
                continue
            if number != bucket or sum(one.num_rows for one in waiting) >= ROWS:
                write()
            bucket = number
            waiting.append(piece.select(INDEX.names))
    write()
    yield lines_of(parts, asdict(counts))


def _runs(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """The pieces of a table that have one bucket each."""
    numbers = table.column("bucket").to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for start, end in pairwise(edges):
        if end > start:
            yield int(numbers[start]), table.slice(start, end - start)


def write_dead(format: Format, place: Place, containers: Tables) -> Tables:
    """Write down what dead containers list."""
    storage, counts = storage_of(format), DeadCounts()

    def listed() -> Tables:
        for table in containers:
            yield from indexing.read_dead(format, storage, table, counts)

    parts = list(write_parts(open_storage(place.url), stem_in(place), listed()))
    report = {
        "unread": counts.unread,
        "damaged": counts.damaged,
        "bytes": counts.bytes,
        "ranges": counts.ranges,
        "partitions": sorted(counts.partitions),
    }
    yield lines_of(parts, report)


def write_names(place: Place, keys_of: KeysOf, within: Within, files: Tables) -> Tables:
    """Write down the keys of live containers themselves, and how many there are."""
    own = open_storage(place.url)
    written: list[Key] = []
    count, sample = 0, Sample()
    for table in read_parts(place.url, files):
        live = table.filter(pc.equal(table.column("cause"), LIVE))
        count += live.num_rows
        written.append(keys_of(live.column("address")))
        sample.add(live.column("address"), written[-1], within)
    parts = write_parts(own, stem_in(place.below("keys")), [keys.table(written)])
    yield lines_of(parts, {"containers": count, SAMPLE: sample.encode()})


def write_listed_keys(
    url: str,
    place: Place,
    live: tuple[Part, ...],
    keys_of: KeysOf,
    within: Within,
    files: Tables,
) -> Tables:
    """Write down the keys of what live containers list, by the index."""
    sample = Sample()
    ranges = keys.load(place.url, live)
    source = indexing.CountedReads(open_storage(url))
    written: list[Key] = []
    for part in parts_in(files):
        rows = read_part(source, part, ["address", "range"])
        # A collision of keys takes a dead range for a live one, and so keeps more.
        listed = pa.array(keys.among(keys_of(rows.column("range")), ranges))
        addresses = rows.filter(listed).column("address")
        written.append(keys_of(addresses))
        sample.add(addresses, written[-1], within)
    own = open_storage(place.url)
    parts = write_parts(own, stem_in(place.below("keys")), [keys.table(written)])
    yield lines_of(parts, {"bytes": source.size, SAMPLE: sample.encode()})


def read_names(url: str, files: Tables) -> Tables:
    """The addresses in parts of any shape."""
    storage = open_storage(url)
    for part in parts_in(files):
        yield read_part(storage, part, ["address"])


def select_named(
    format: Format, below: str, unlisted: frozenset[str], read: str, files: Tables
) -> Tables:
    """Addresses below a folder in partitions that were not listed."""
    for table in read_names(read, files):
        yield looking_up.in_guards(format, looking_up.below(below, table), unlisted)


def free_names(
    url: str, live: tuple[Part, ...], keys_of: KeysOf, tables: Sequence[pa.Table]
) -> pa.Table:
    """Addresses that nothing live lists, each once."""
    whole = pa.concat_tables([ADDRESSES.empty_table(), *(one.cast(ADDRESSES) for one in tables)])
    once = pa.table({"address": pc.unique(whole.column("address"))}, schema=ADDRESSES)
    listed = keys.among(keys_of(once.column("address")), keys.load(url, live))
    return once.filter(pa.array(~listed))


def explain(url: str, dead: Sequence[Part], judge: Work, rows: Tables) -> Tables:
    """Judge survivors, with where dead containers listed them: the least cause, the first path."""
    storage = open_storage(url)
    known = pa.concat_tables([READ.empty_table(), *(read_part(storage, part) for part in dead)])
    columns = ("cause", "path", "kind")
    ranked = known.append_column("has_path", pc.is_valid(known.column("path")))
    ranked = ranked.append_column("has_kind", pc.is_valid(known.column("kind")))
    # One without a path comes first.
    order = ("cause", "has_path", "path", "has_kind", "kind")
    known = ranked.sort_by([(name, "ascending") for name in order])

    def explained() -> Tables:
        for table in rows:
            at = pc.index_in(table.column("address"), known.column("address"))
            for name in columns:
                place = table.column_names.index(name)
                table = table.set_column(place, SURVIVORS.field(name), known.column(name).take(at))
            yield table

    return judge(explained())


def look_up(
    format: Format,
    work: Place,
    carry: Place,
    live: tuple[Part, ...],
    rows: Tables,
    *,
    held: tuple[Part, ...],
    keys_of: KeysOf,
) -> Tables:
    """Look up objects that nothing live lists and nothing holds; write the others down too."""
    committed, holding = keys.load(work.url, live), keys.load(work.url, held)
    storage = storage_of(format)
    found: list[pa.Table] = []
    waiting: list[pa.Table] = []
    missing: looking_up.GuardCounts = {}
    for table in rows:
        named = keys_of(table.column("address"))
        table = table.filter(pa.array(~keys.among(named, committed)))
        is_held = pa.array(keys.among(keys_of(table.column("address")), holding))
        waiting.append(looking_up.as_listed(table.filter(is_held).column("address")))
        free = table.filter(pc.invert(is_held))
        there = looking_up.look_up(storage, free.column("address"))
        looking_up.add_guards(missing, looking_up.count_missing(format, free, there))
        tally.count(OBJECTS, there.num_rows)
        found.append(there)
    own = open_storage(work.url)
    parts = [
        replace(part, group=group)
        for group, place, tables in ((THERE, work, found), (WAITING, carry, waiting))
        for part in write_parts(own, stem_in(place.below(group)), tables)
    ]
    looked_up = sum(table.num_rows for table in found)
    yield lines_of(parts, {"looked_up": looked_up, "guards": missing})


def count_guards(source: Source, files: Tables) -> Tables:
    """Count listed objects and bytes by partition."""
    counts: looking_up.GuardCounts = {}
    for table in source.read(files):
        looking_up.add_guards(counts, looking_up.count_guards(source.format, table))
    yield lines_of([], {"guards": counts})


def count_keys(url: str, live: tuple[Part, ...], _rows: Tables) -> Tables:
    """Count keys, each once."""
    for _ in _rows:
        pass
    yield lines_of([], {"keys": len(np.unique(keys.load(url, live)))})


def read_taken(url: str, files: Tables) -> Tables:
    """The addresses that a journal says are gone."""
    for table in read_parts(url, files):
        gone = table.filter(pc.not_equal(table.column("outcome"), FAILED))
        yield gone.select(["address"])


def count_taken(format: Format, url: str, files: Tables) -> Tables:
    """Count what a journal says is gone by partition."""
    counts: looking_up.GuardCounts = {}
    for table in read_parts(url, files):
        gone = table.filter(pc.not_equal(table.column("outcome"), FAILED))
        looking_up.add_guards(counts, looking_up.count_guards(format, gone))
    yield lines_of([], {"guards": counts})


def write_carried(format: Format, final: frozenset[str], place: Place, rows: Tables) -> Tables:
    """Write down the addresses that lie in final partitions."""
    kept = (looking_up.in_guards(format, table, final).cast(ADDRESSES) for table in rows)
    yield lines_of(write_parts(open_storage(place.url), stem_in(place), kept))


def copy(url: str, place: Place, live: bool, files: Tables) -> Tables:
    """Copy parts; of containers the live ones alone."""
    source, target = indexing.CountedReads(open_storage(url)), open_storage(place.url)
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
