"""Runs that start from a checkpoint and leave one, on Spark: the index, and what is carried on.

Each task reads some ranges and writes the parts of the index with their entries, cut by partition.
Nothing but counts and the names of files comes to the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from reclaim.engine.incremental import (
    Carried,
    CarryRequest,
    Copied,
    CopyRequest,
    Indexed,
    IndexRequest,
)
from reclaim.engine.spark.failures import Work
from reclaim.engine.spark.finding import Finder, run_here
from reclaim.engine.spark.frames import Frames, Lines
from reclaim.engine.spark.work import incremental
from reclaim.engine.spark.work.incremental import FLAGGED, RANGE_FILE
from reclaim.engine.spark.work.lines import files_table
from reclaim.engine.spark.work.parts import read_addresses
from reclaim.engine.tasks.index import ADDRESSES, IndexCounts
from reclaim.engine.tasks.looking_up import GuardCounts, add_guards
from reclaim.engine.tasks.parts import Part, open_storage, read_part
from reclaim.engine.tasks.reading import LIVE
from reclaim.stores.format import CONTAINERS

ENTRIES_ON_DRIVER = 100_000
"""So many entries of containers are read without a job: some ten megabytes."""


class IncrementalJobs:
    """The jobs of such runs, whatever their kind."""

    def __init__(self, frames: Frames, finder: Finder) -> None:
        self._frames = frames
        self._finder = finder

    def index(self, request: IndexRequest) -> Indexed:
        if not request.containers:
            return Indexed()
        write = partial(incremental.write_index, request.format, list(request.edges), request.place)
        few = self._few_containers(request)
        lines = self._index_on_executors(request, write) if few is None else run_here(write, few)
        counts = IndexCounts()
        for report in lines.reports():
            counts.add(IndexCounts(**report))
        ranges = [part for part in lines.parts if part.group == RANGE_FILE]
        return Indexed([part for part in lines.parts if part.group != RANGE_FILE], ranges, counts)

    def _few_containers(self, request: IndexRequest) -> pa.Table | None:
        """The live containers, if there are so few to be read that the driver does it."""
        if _rows([*request.containers, *request.known]) > self._finder.driver_row_limit:
            return None
        storage = open_storage(request.place.url)
        rows = few_containers(self._finder, request.place.url, request.containers, live=True)
        if rows is None:
            return None
        known = [read_part(storage, part, ["address"]).cast(ADDRESSES) for part in request.known]
        names = pa.concat_tables([ADDRESSES.empty_table(), *known]).column("address")
        is_known = pc.is_in(rows.column("address"), names.combine_chunks())
        if count_entries(rows.filter(pc.invert(is_known))) > ENTRIES_ON_DRIVER:
            return None
        return rows.append_column(FLAGGED.field("known"), is_known)

    def _index_on_executors(self, request: IndexRequest, write: Work) -> Lines:
        url, count = request.place.url, _rows(request.containers)
        rows = self._frames.rows_of(url, request.containers, CONTAINERS)
        known = F.lit(False)
        rows = rows.where(F.col("cause") == LIVE)
        if request.known:
            named = self._frames.files(request.known).map(partial(read_addresses, url), ADDRESSES)
            flagged = named.distinct().withColumn("known", F.lit(True))
            rows = rows.join(flagged, on="address", how="left")
            known = F.coalesce("known", F.lit(False))
        spread = rows.select(*CONTAINERS.names, known.alias("known"))
        tasks = max(1, min(2 * self._frames.tasks, count))
        shuffled = count + _rows(request.known)
        return self._frames.run(spread.repartition(tasks), write, shuffled=shuffled)

    def carry(self, request: CarryRequest) -> Carried:
        url = request.source.url
        taken: GuardCounts = {}
        journal = self._frames.files(request.journal) if request.journal else None
        if journal is not None:
            count = partial(incremental.count_taken, request.format, url)
            taken = guards_in(self._frames.run(journal, count))
        if not request.carried:
            return Carried((), taken)
        rows = self._frames.files(request.carried).map(partial(read_addresses, url), ADDRESSES)
        if journal is not None:
            gone = journal.map(partial(incremental.read_taken, url), ADDRESSES)
            rows = rows.join(gone, on="address", how="left_anti")
        write = partial(incremental.write_carried, request.format, request.final, request.place)
        shuffled = _rows(request.carried) + _rows(request.journal)
        lines = self._frames.run(rows.distinct(), write, shuffled=shuffled)
        return Carried(lines.parts, taken)

    def copy(self, request: CopyRequest) -> Copied:
        if not request.parts:
            return Copied()
        copy = partial(incremental.copy, request.url, request.place, request.live)
        if _rows(request.parts) <= self._finder.driver_row_limit:
            lines = run_here(copy, files_table(request.parts))
        else:
            lines = self._frames.run(self._frames.files(request.parts), copy)
        return Copied(lines.parts, lines.sum("bytes"))


def few_containers(
    finder: Finder, url: str, parts: Sequence[Part], *, live: bool
) -> pa.Table | None:
    """The live or the dead ones of some containers, if the driver can look at them by itself."""
    if _rows(parts) > finder.driver_row_limit:
        return None
    storage = open_storage(url)
    tables = [read_part(storage, part) for part in parts]
    rows = pa.concat_tables([CONTAINERS.empty_table(), *tables])
    is_live = pc.equal(rows.column("cause"), LIVE)
    return rows.filter(is_live if live else pc.invert(is_live))


def count_entries(containers: pa.Table) -> int:
    """How many entries containers have; whatever has none is read, too."""
    entries: int = pc.sum(containers.column("entries")).as_py() or 0
    rows: int = containers.num_rows
    return rows + entries


def guards_in(lines: Lines) -> GuardCounts:
    """Objects and bytes by partition, as tasks have reported them."""
    counts: GuardCounts = {}
    for report in lines.reports():
        found = report["guards"].items()
        add_guards(counts, {guard: (objects, size) for guard, (objects, size) in found})
    return counts


def _rows(parts: Sequence[Part]) -> int:
    return sum(part.rows for part in parts)
