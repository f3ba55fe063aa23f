"""Runs on uncommitted data on Spark: the index, and finding candidates by it.

What is live is compared by keys, as ``finding`` does it. The index is cut by partition, and Spark
sorts it; nothing but counts and the names of partitions comes to the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from reclaim.engine.base import Candidates, ContainerFiles, FindRequest, Objects
from reclaim.engine.spark.finding import Finder, Keys, count_looked_at, judged
from reclaim.engine.spark.frames import Frames, Lines, map_rows
from reclaim.engine.spark.work import candidates, uncommitted
from reclaim.engine.spark.work.candidates import Source
from reclaim.engine.spark.work.containers import JOIN_KEY
from reclaim.engine.spark.work.lines import Tables
from reclaim.engine.spark.work.parts import read_parts
from reclaim.engine.spark.work.uncommitted import ADDRESSES, BUCKETED, THERE
from reclaim.engine.tasks.indexing import DeadCounts, IndexCounts
from reclaim.engine.tasks.judging import SURVIVORS
from reclaim.engine.tasks.looking_up import GuardCounts, add_guards
from reclaim.engine.tasks.parts import Part
from reclaim.engine.tasks.reading import LIVE, READ
from reclaim.engine.uncommitted import (
    Carried,
    CarryRequest,
    CopyRequest,
    DeadEntries,
    DeadRequest,
    Indexed,
    IndexRequest,
    UncommittedFindings,
    UncommittedSearch,
)
from reclaim.stores.format import CONTAINERS

NO_CONTAINERS = ContainerFiles((), 0, 0, 0)
LOOKED_UP_BY_A_TASK = 500
"""Objects that are worth a task of their own to look them up."""


class UncommittedJobs:
    """The jobs of such runs, on the frames and with the finder of an engine."""

    def __init__(self, frames: Frames, finder: Finder) -> None:
        self._frames = frames
        self._finder = finder

    def index(self, request: IndexRequest) -> Indexed:
        if not request.containers:
            return Indexed()
        count = sum(part.rows for part in request.containers)
        rows = self._containers(request.place.url, request.containers).where(F.col("cause") == LIVE)
        if request.known:
            known = self._containers(request.place.url, request.known)
            names = known.where(F.col("cause") == LIVE).select("address")
            rows = rows.join(names, on="address", how="left_anti")
        spread = rows.select(*CONTAINERS.names).repartition(self._tasks(count))
        entries = map_rows(
            spread, partial(uncommitted.index_rows, request.format, list(request.edges)), BUCKETED
        )
        # One more for the counts.
        buckets = min(2 * self._frames.tasks, len(request.edges) + 2)
        sorted_entries = entries.repartition(buckets, "bucket").sortWithinPartitions(
            "bucket", "partition"
        )
        lines = self._frames.run(
            sorted_entries, partial(uncommitted.write_index, request.place), shuffled=count
        )
        counts = IndexCounts()
        for report in lines.reports():
            counts.add(IndexCounts(**report))
        return Indexed(lines.parts, counts)

    def dead_entries(self, request: DeadRequest) -> DeadEntries:
        if not request.containers:
            return DeadEntries()
        rows = self._containers(request.place.url, request.containers).where(F.col("cause") != LIVE)
        count = sum(part.rows for part in request.containers)
        spread = rows.repartition(self._tasks(count))
        write = partial(uncommitted.write_dead, request.format, request.place)
        lines = self._frames.run(spread, write)
        counts = DeadCounts()
        for report in lines.reports():
            found = {**report, "partitions": set(report["partitions"])}
            counts.add(DeadCounts(**found))
        return DeadEntries(lines.parts, counts)

    def search(self, request: FindRequest, search: UncommittedSearch) -> Candidates:
        """Find candidates by the index, and note what the next run needs."""
        finder, work, format = self._finder, request.work, request.format
        held, read = finder.write_keys(format, NO_CONTAINERS, request.held, (), work)
        notes = UncommittedFindings()
        found = Candidates(read=read, uncommitted=notes)
        committed = self._committed(request, search, found)
        listed = self._frames.files(request.objects.parts) if request.objects.parts else None
        if listed is not None:
            source = Source(format, request.objects)
            counted = self._frames.run(listed, partial(uncommitted.count_guards, source))
            notes.guards = _guards(counted)
        there, waiting = self._look_up(request, search, committed, held, notes)
        objects = Objects(request.place.url, [*request.objects.parts, *there])
        if not objects.parts:
            notes.carried = waiting
            return found
        survivors = finder.write_survivors(Source(format, objects), committed, search.carry)
        count_looked_at(found, survivors)
        notes.carried = [*survivors.parts, *waiting]
        if not survivors.parts:
            return found
        free = self._not_held(request.place.url, survivors.parts, held)
        if search.dead:
            free = free.drop("path", "kind", "cause").join(
                self._explanations(request.place.url, search.dead), on="address", how="left"
            )
        judge = partial(candidates.judge, format, request.rules, request.place)
        shuffled = _rows(survivors.parts) + _rows(search.dead)
        lines = self._frames.run(free.select(*SURVIVORS.names), judge, shuffled=shuffled)
        return judged(found, lines)

    def _committed(
        self, request: FindRequest, search: UncommittedSearch, found: Candidates
    ) -> Keys:
        """The keys of live containers and of what the index says that they list."""
        work, keys_of = request.work, self._finder.keys_of
        notes = found.uncommitted
        assert notes is not None
        if not request.containers.parts:
            return ()
        named = self._frames.run(
            self._frames.files(request.containers.parts),
            partial(uncommitted.write_names, work, keys_of),
        )
        found.read.containers = named.sum("containers")
        names = tuple(named.parts)
        keys = list(names)
        for url, parts in ((search.url, search.index), (work.url, search.fresh)):
            if parts:
                write = partial(uncommitted.write_listed_keys, url, work, names, keys_of)
                lines = self._frames.run(self._frames.files(parts), write)
                keys += lines.parts
                notes.bytes += lines.sum("bytes") if parts is search.index else 0
        committed = tuple(keys)
        if not self._finder.exceed_lookup(committed):
            count = partial(uncommitted.count_keys, work.url, committed)
            one = self._frames.spread(pa.table({"address": [""]}))
            notes.committed = self._frames.run(one, count).sum("keys")
        return committed

    def _look_up(
        self,
        request: FindRequest,
        search: UncommittedSearch,
        committed: Keys,
        held: Keys,
        notes: UncommittedFindings,
    ) -> tuple[Sequence[Part], Sequence[Part]]:
        """Objects that were looked up and are there, and addresses there that are held."""
        sources = [
            self._frames.files(parts).map(
                partial(
                    uncommitted.select_named, request.format, search.below, search.unlisted, url
                ),
                ADDRESSES,
            )
            for url, parts in ((search.url, search.carried), (request.place.url, search.dead))
            if parts and search.unlisted
        ]
        if not sources:
            return (), ()
        named = sources[0]
        for other in sources[1:]:
            named = named.union(other)
        named = named.distinct()
        live = committed
        if self._finder.exceed_lookup(committed):
            with_keys = partial(candidates.with_keys, _as_they_are, self._finder.keys_of)
            rows = map_rows(named, with_keys, ADDRESSES.append(JOIN_KEY))
            keys = self._finder.key_rows(committed, request.work.url)
            named, live = rows.join(keys, on="key", how="left_anti").select("address"), ()
        count = _rows(search.carried) + _rows(search.dead)
        tasks = max(1, min(2 * self._frames.tasks, -(-count // LOOKED_UP_BY_A_TASK)))
        look_up = partial(
            uncommitted.look_up,
            request.format,
            request.work,
            search.carry,
            live,
            held,
            self._finder.keys_of,
        )
        lines = self._frames.run(named.repartition(tasks), look_up, shuffled=count)
        notes.looked_up = lines.sum("looked_up")
        there = [part for part in lines.parts if part.group == THERE]
        return there, [part for part in lines.parts if part.group != THERE]

    def _not_held(self, url: str, parts: Sequence[Part], held: Keys) -> DataFrame:
        files = self._frames.files(parts)
        if not self._finder.exceed_lookup(held):
            read = partial(candidates.unlisted, url, held, self._finder.keys_of)
            return files.map(read, SURVIVORS)
        with_keys = partial(candidates.with_keys, partial(read_parts, url), self._finder.keys_of)
        rows = files.map(with_keys, SURVIVORS.append(JOIN_KEY))
        return rows.join(self._finder.key_rows(held, url), on="key", how="left_anti")

    def _explanations(self, url: str, dead: Sequence[Part]) -> DataFrame:
        """Addresses that dead containers listed, each once, with the least cause."""
        rows = self._frames.rows_of(url, dead, READ)
        best = F.min(F.struct("cause", "path", "kind")).alias("best")
        each = rows.groupBy("address").agg(best)
        return each.select("address", "best.path", "best.kind", "best.cause")

    def carry(self, request: CarryRequest) -> Carried:
        url = request.source.url
        taken: GuardCounts = {}
        journal = self._frames.files(request.journal) if request.journal else None
        if journal is not None:
            count = partial(uncommitted.count_taken, request.format, url)
            taken = _guards(self._frames.run(journal, count))
        if not request.carried:
            return Carried((), taken)
        rows = self._frames.files(request.carried).map(
            partial(uncommitted.read_names, url), ADDRESSES
        )
        if journal is not None:
            gone = journal.map(partial(uncommitted.read_taken, url), ADDRESSES)
            rows = rows.join(gone, on="address", how="left_anti")
        write = partial(uncommitted.write_carried, request.format, request.final, request.place)
        shuffled = _rows(request.carried) + _rows(request.journal)
        lines = self._frames.run(rows.distinct(), write, shuffled=shuffled)
        return Carried(lines.parts, taken)

    def copy(self, request: CopyRequest) -> Sequence[Part]:
        if not request.parts:
            return ()
        copy = partial(uncommitted.copy, request.url, request.place, request.live)
        return self._frames.run(self._frames.files(request.parts), copy).parts

    def _containers(self, url: str, parts: Sequence[Part]) -> DataFrame:
        return self._frames.rows_of(url, parts, CONTAINERS)

    def _tasks(self, count: int) -> int:
        return max(1, min(2 * self._frames.tasks, count))


def _as_they_are(tables: Tables) -> Tables:
    return tables


def _rows(parts: Sequence[Part]) -> int:
    return sum(part.rows for part in parts)


def _guards(lines: Lines) -> GuardCounts:
    counts: GuardCounts = {}
    for report in lines.reports():
        found = report["guards"].items()
        add_guards(counts, {guard: (objects, size) for guard, (objects, size) in found})
    return counts
