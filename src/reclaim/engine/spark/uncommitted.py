"""Runs on uncommitted data on Spark: finding candidates by the index.

What is live is compared by keys, as ``finding`` does it; nothing but counts and the names of
partitions comes to the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from reclaim.engine.answers import NO_CONTAINERS, Candidates, Objects, Read
from reclaim.engine.pipelines.finding import count_looked_at, judged
from reclaim.engine.pipelines.incremental import guards_in
from reclaim.engine.pipelines.live_keys import Keys, sample_in
from reclaim.engine.requests import FindRequest
from reclaim.engine.spark.finding import Finder, run_here
from reclaim.engine.spark.frames import Frames, Spread, map_rows
from reclaim.engine.spark.work import uncommitted
from reclaim.engine.spark.work.uncommitted import THERE
from reclaim.engine.tasks.judging import SURVIVORS
from reclaim.engine.tasks.parts import ADDRESSES, Part
from reclaim.engine.tasks.reading import READ
from reclaim.engine.tasks.sampling import listed_part
from reclaim.engine.uncommitted import UncommittedFindings, UncommittedSearch
from reclaim.engine.work import candidates
from reclaim.engine.work.candidates import Source
from reclaim.engine.work.containers import JOIN_KEY, extra_sources, write_keys
from reclaim.engine.work.lines import Lines, Tables, Work, after, files_table
from reclaim.engine.work.parts import read_parts

LOOKED_UP_BY_A_TASK = 500
"""Objects that are worth a task of their own to look them up."""
LOOKED_UP_ON_DRIVER, LOOKED_UP_ON_DISK = 1_000, 10_000
"""So many objects are looked up without a job, in a storage that is asked by requests, and on a
disk."""


class UncommittedJobs:
    """The jobs of such runs, on the frames and with the finder of an engine."""

    def __init__(self, frames: Frames, finder: Finder) -> None:
        self._frames = frames
        self._finder = finder

    def search(self, request: FindRequest, search: UncommittedSearch) -> Candidates:
        """Find candidates by the index, and note what the next run needs.

        Where there is little to compare, as is usual for an optimized run, the driver does that by
        itself. What has to be asked of the storage for each object, executors always ask.
        """
        work, format = request.work, request.format
        here = self._fits_driver(
            request.objects.parts,
            request.containers.parts,
            search.index,
            search.fresh,
            search.dead,
            search.carried,
        )
        held, read = self._held_keys(request, here=here)
        notes = UncommittedFindings()
        found = Candidates(read=read, uncommitted=notes)
        committed = self._committed(request, search, found, here=here)
        source = Source(format, request.objects)
        if request.objects.parts:
            count = partial(uncommitted.count_guards, source)
            notes.guards = guards_in(self._run(request.objects.parts, count, here=here))
        there, waiting = self._look_up(request, search, committed, held, notes, here=here)
        objects = Objects(request.place.url, [*request.objects.parts, *there])
        notes.carried = waiting
        if not objects.parts:
            return found
        source = Source(format, objects, found.sample.keys)
        if here:
            keys_of, write = self._finder.keys_of, partial(candidates.write_survivors, search.carry)
            look = partial(candidates.survivors, source, work.url, committed, keys_of)
            survivors = self._run(
                objects.parts, partial(candidates.with_counts, look, write), here=True
            )
        else:
            survivors = self._finder.write_survivors(source, committed, search.carry)
        count_looked_at(found, survivors)
        notes.carried = [*survivors.parts, *waiting]
        if not survivors.parts:
            return found
        judge = partial(
            candidates.judge, format, request.rules, request.place, self._finder.keys_of
        )
        if here:
            free = partial(candidates.unlisted, work.url, held, self._finder.keys_of)
            explain = partial(uncommitted.explain, request.place.url, search.dead, judge)
            return judged(
                found, self._run(survivors.parts, partial(after, free, explain), here=True)
            )
        rows = self._not_held(request.place.url, survivors.parts, held)
        if search.dead:
            rows = rows.drop("path", "kind", "cause").join(
                self._explanations(request.place.url, search.dead), on="address", how="left"
            )
        shuffled = _rows(survivors.parts) + _rows(search.dead)
        lines = self._frames.run(rows.select(*SURVIVORS.names), judge, shuffled=shuffled)
        return judged(found, lines)

    def _fits_driver(self, *parts: Sequence[Part]) -> bool:
        """Whether less time goes into the work than into the jobs that would spread it."""
        return sum(map(_rows, parts)) <= self._finder.driver_row_limit

    def _run(self, parts: Sequence[Part], work: Work, *, here: bool) -> Lines:
        """Run work on parts, in this process or in tasks."""
        if here:
            return run_here(work, files_table(parts))
        return self._frames.run(self._frames.files(parts), work)

    def _held_keys(self, request: FindRequest, *, here: bool) -> tuple[Keys, Read]:
        """The keys of what something else than a snapshot needs."""
        if not here:
            keys, read = self._finder.write_keys(
                request.format, NO_CONTAINERS, request.held, (), request.work
            )
            return keys.live, read
        write = partial(write_keys, request.format, request.work, self._finder.keys_of)
        lines = run_here(write, extra_sources(request.held, ()))
        return tuple(lines.parts), Read(held=lines.sum("held"))

    def _committed(
        self, request: FindRequest, search: UncommittedSearch, found: Candidates, *, here: bool
    ) -> Keys:
        """The keys of live containers and of what the index says that they list."""
        work, keys_of = request.work, self._finder.keys_of
        notes = found.uncommitted
        assert notes is not None
        if not request.containers.parts:
            return ()
        within = partial(listed_part, request.format, search.below, search.unlisted)
        write = partial(uncommitted.write_names, work, keys_of, within)
        named = self._run(request.containers.parts, write, here=here)
        found.read.containers = named.sum("containers")
        names = tuple(named.parts)
        keys, jobs = list(names), [named]
        for url, parts in ((search.url, search.index), (work.url, search.fresh)):
            if parts:
                write = partial(uncommitted.write_listed_keys, url, work, names, keys_of, within)
                lines = self._run(parts, write, here=here)
                keys += lines.parts
                jobs.append(lines)
                notes.bytes += lines.sum("bytes") if parts is search.index else 0
        found.sample = sample_in(*jobs)
        committed = tuple(keys)
        if search.below and not self._finder.exceed_lookup(committed):
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
        *,
        here: bool,
    ) -> tuple[Sequence[Part], Sequence[Part]]:
        """Objects that were looked up and are there, and addresses there that are held."""
        sources = [
            (
                parts,
                partial(
                    uncommitted.select_named, request.format, search.below, search.unlisted, url
                ),
            )
            for url, parts in ((search.url, search.carried), (request.place.url, search.dead))
            if parts and search.unlisted
        ]
        if not sources:
            return (), ()
        live = committed
        count = _rows(search.carried) + _rows(search.dead)
        tasks = max(1, min(2 * self._frames.tasks, -(-count // LOOKED_UP_BY_A_TASK)))
        look_up = partial(
            uncommitted.look_up,
            request.format,
            request.work,
            search.carry,
            held=held,
            keys_of=self._finder.keys_of,
        )
        if here:
            # Only those that nothing refers to are worth a task.
            tables = [
                table for parts, read in sources for table in read(iter([files_table(parts)]))
            ]
            names = uncommitted.free_names(
                request.work.url, committed, self._finder.keys_of, tables
            )
            if not names.num_rows:
                return (), ()
            on_disk = request.format.root.startswith("file:")
            if names.num_rows <= (LOOKED_UP_ON_DISK if on_disk else LOOKED_UP_ON_DRIVER):
                return _looked_up(run_here(partial(look_up, ()), names), notes)
            rows: DataFrame | Spread = self._frames.spread(names)
            live = ()
        else:
            named = reduce(
                lambda one, other: one.union(other),
                (self._frames.files(parts).map(read, ADDRESSES) for parts, read in sources),
            ).distinct()
            if self._finder.exceed_lookup(committed):
                with_keys = partial(candidates.with_keys, _as_they_are, self._finder.keys_of)
                keyed = map_rows(named, with_keys, ADDRESSES.append(JOIN_KEY))
                keys = self._finder.key_rows(committed, request.work.url)
                named, live = keyed.join(keys, on="key", how="left_anti").select("address"), ()
            rows = named.repartition(tasks)
        lines = self._frames.run(rows, partial(look_up, live), shuffled=count)
        return _looked_up(lines, notes)

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


def _as_they_are(tables: Tables) -> Tables:
    return tables


def _rows(parts: Sequence[Part]) -> int:
    return sum(part.rows for part in parts)


def _looked_up(lines: Lines, notes: UncommittedFindings) -> tuple[Sequence[Part], Sequence[Part]]:
    """Objects that are there, and addresses that are held."""
    notes.looked_up, notes.missing = lines.sum("looked_up"), guards_in(lines)
    there = [part for part in lines.parts if part.group == THERE]
    return there, [part for part in lines.parts if part.group != THERE]
