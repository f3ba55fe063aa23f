"""Build the index, read dead containers, and carry addresses, for incremental runs.

Each task reads some ranges and writes index parts with their entries, cut by partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.base import JobRunner
from reclaim.engine.incremental import Carried, CarryRequest, Indexed, IndexRequest
from reclaim.engine.pipelines.reading import count_rows, count_tasks, rows_of
from reclaim.engine.tasks.dead_entries import DeadCounts
from reclaim.engine.tasks.index import IndexCounts
from reclaim.engine.tasks.lookup import GuardCounts, add_guards
from reclaim.engine.tasks.parts import ADDRESSES, Part, Place, read_part
from reclaim.engine.tasks.reading import LIVE
from reclaim.engine.uncommitted import DeadEntries, DeadRequest
from reclaim.engine.work import incremental
from reclaim.engine.work.incremental import KNOWN, RANGE_FILE
from reclaim.engine.work.lines import Lines
from reclaim.engine.work.parts import read_addresses
from reclaim.stores.format import CONTAINERS

ENTRIES_IN_PROCESS = 100_000
"""Entries of containers read without a job, some ten megabytes."""


def index(engine: JobRunner, request: IndexRequest) -> Indexed:
    """Read live containers no run has read, and write their entries by partition."""
    if not request.containers:
        return Indexed()
    engine = _near(engine, request.place, request.containers, request.known, live=True)
    url = request.place.url
    rows = rows_of(engine, url, request.containers, CONTAINERS).where("cause", LIVE)
    if request.known:
        named = engine.files(request.known).map(partial(read_addresses, url), ADDRESSES)
        known = named.distinct().map(incremental.flag, KNOWN)
        rows = rows.join(known, "address", "left").select(*CONTAINERS.names, "known")
    count = count_rows(request.containers)
    write = partial(incremental.write_index, request.format, list(request.edges), request.place)
    shuffled = count + count_rows(request.known)
    spread = rows.repartition(count_tasks(engine, count))
    lines = engine.run("index", spread, write, shuffled=shuffled)
    counts = IndexCounts()
    for report in lines.reports():
        counts.add(IndexCounts(**report))
    ranges = [part for part in lines.parts if part.group == RANGE_FILE]
    return Indexed([part for part in lines.parts if part.group != RANGE_FILE], ranges, counts)


def dead_entries(engine: JobRunner, request: DeadRequest) -> DeadEntries:
    """Read dead containers and write the entries they list."""
    if not request.containers:
        return DeadEntries()
    engine = _near(engine, request.place, request.containers, (), live=False)
    rows = rows_of(engine, request.place.url, request.containers, CONTAINERS)
    spread = rows.where("cause", LIVE, equal=False)
    spread = spread.repartition(count_tasks(engine, count_rows(request.containers)))
    write = partial(incremental.write_dead, request.format, request.place)
    lines = engine.run("dead", spread, write)
    counts = DeadCounts()
    for report in lines.reports():
        counts.add(DeadCounts(**{**report, "partitions": set(report["partitions"])}))
    return DeadEntries(lines.parts, counts)


def carry(engine: JobRunner, request: CarryRequest) -> Carried:
    """Write addresses a run did not take, and count taken objects by partition."""
    url = request.source.url
    taken: GuardCounts = {}
    if request.journal:
        count = partial(incremental.count_taken, request.format, url)
        taken = guards_in(engine.run("count", engine.files(request.journal), count))
    if not request.carried:
        return Carried((), taken)
    rows = engine.files(request.carried).map(partial(read_addresses, url), ADDRESSES)
    if request.journal:
        read = partial(incremental.read_taken, url)
        gone = engine.files(request.journal).map(read, ADDRESSES)
        rows = rows.join(gone, "address", "left_anti")
    write = partial(incremental.write_carried, request.format, request.final, request.place)
    shuffled = count_rows(request.carried, request.journal)
    lines = engine.run("carry", rows.distinct(), write, shuffled=shuffled)
    return Carried(lines.parts, taken)


def guards_in(lines: Lines) -> GuardCounts:
    """Return objects and bytes by partition, as reported by tasks."""
    counts: GuardCounts = {}
    for report in lines.reports():
        guards = report["guards"].items()
        add_guards(counts, {guard: (objects, size) for guard, (objects, size) in guards})
    return counts


def _near(
    engine: JobRunner,
    place: Place,
    containers: Sequence[Part],
    known: Sequence[Part],
    *,
    live: bool,
) -> JobRunner:
    """Return the engine, or this process if there are few entries to read."""
    runner = engine.runner_for(count_rows(containers, known))
    if runner is engine:
        return engine
    storage = engine.open(place.url)
    tables = [read_part(storage, part, ["address", "cause", "entries"]) for part in containers]
    rows = pa.concat_tables(tables)
    is_live = pc.equal(rows.column("cause"), LIVE)
    rows = rows.filter(is_live if live else pc.invert(is_live))
    for part in known:
        names = read_part(storage, part, ["address"]).column("address").combine_chunks()
        rows = rows.filter(pc.invert(pc.is_in(rows.column("address"), names)))
    # Containers without entries are read, too.
    entries = rows.num_rows + (pc.sum(rows.column("entries")).as_py() or 0)
    return runner if entries <= ENTRIES_IN_PROCESS else engine
