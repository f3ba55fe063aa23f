"""Lifecycle rules on Spark: the five parts of a run as steps, each with its own name.

Ranges are grouped before an entry is read. Tasks match entries by columns and write them into the
index; what has to be decided on is told by keys, and then every path of these addresses comes to
one task, which decides by whole addresses. A collision of keys only adds what is decided on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from reclaim.engine.base import Candidates, ContainerFiles, FindRequest
from reclaim.engine.lifecycle import (
    LifecycleCarryRequest,
    LifecycleFindings,
    LifecycleRead,
    LifecycleSearch,
    PublishRequest,
    RangeFiles,
    RangesRequest,
    Rejudged,
    RejudgeRequest,
)
from reclaim.engine.spark.failures import Work
from reclaim.engine.spark.finding import Finder, Keys, run_here
from reclaim.engine.spark.frames import Frames, Lines, map_rows
from reclaim.engine.spark.work import lifecycle
from reclaim.engine.spark.work.containers import JOIN_KEY, read_keys
from reclaim.engine.spark.work.lifecycle import (
    ADDRESS_FILE,
    CANDIDATE_FILE,
    CONTAINER_FILE,
    HELD_FILE,
    KEY_FILE,
    NAMES,
    RANGE_FILE,
    ROW_FILE,
    THERE,
)
from reclaim.engine.spark.work.lines import files_table
from reclaim.engine.spark.work.parts import write_rows
from reclaim.engine.tasks import lifecycle_index, lifecycle_ranges
from reclaim.engine.tasks.judging import Verdict
from reclaim.engine.tasks.lifecycle import ADDRESSES, RANGES, ROWS
from reclaim.engine.tasks.lifecycle_index import Changes
from reclaim.engine.tasks.parts import Part, open_storage, read_part, write_part
from reclaim.storage import LISTED

NO_CONTAINERS = ContainerFiles((), 0, 0, 0)
LOOKED_UP_BY_A_TASK = 500
"""Objects that are worth a task of their own to look them up."""


class LifecycleJobs:
    """The jobs of such runs, on the frames and with the finder of an engine."""

    def __init__(self, frames: Frames, finder: Finder) -> None:
        self._frames = frames
        self._finder = finder

    # Potential commits, and their ranges

    def ranges(self, request: RangesRequest) -> RangeFiles:
        """Group the ranges of commits, before any entry is read."""
        lines = self._group_ranges(request)
        if not lines.rows:
            return RangeFiles()
        named = write_part(
            open_storage(request.place.url),
            request.place.below("containers").at("metaranges.parquet"),
            lifecycle_ranges.named_metaranges(request.metaranges),
        )
        return RangeFiles(
            _of(lines, RANGE_FILE),
            [named, *_of(lines, CONTAINER_FILE)],
            metaranges=lines.sum("metaranges"),
            ranges=lines.sum("ranges"),
            entries=lines.sum("entries"),
            bytes=lines.sum("bytes"),
        )

    def _group_ranges(self, request: RangesRequest) -> Lines:
        listed = self._expanded(request)
        if request.known:
            read = partial(lifecycle.read_known, request.place.url, request.renumbering)
            known = self._frames.files(request.known).map(read, RANGES)
            listed = known if listed is None else listed.union(known)
        if listed is None:
            return Lines(())
        write = partial(lifecycle.write_ranges, request.place)
        shuffled = _rows(request.known) + 100 * request.metaranges.num_rows
        return self._frames.run(_each_once(listed), write, shuffled=shuffled)

    def _expanded(self, request: RangesRequest | RejudgeRequest) -> DataFrame | None:
        if not request.metaranges.num_rows:
            return None
        spread = self._frames.spread(request.metaranges)
        return spread.map(partial(lifecycle.expand, request.format), RANGES)

    # The search

    def search(self, request: FindRequest, search: LifecycleSearch) -> Candidates:
        """Find what rules match wherever something refers to it."""
        notes = LifecycleFindings()
        found = Candidates(lifecycle=notes)
        matched, partitions = self._match_entries(request, search, notes)
        if _rows(matched):
            self._find_deduplications(request, search, matched, partitions, notes)
        self._find_objects(request, search, found)
        return found

    def _match_entries(
        self, request: FindRequest, search: LifecycleSearch, notes: LifecycleFindings
    ) -> tuple[Keys, frozenset[str] | None]:
        """The keys of what has to be decided on, and the partitions where it lies.

        Without partitions everything was read.
        """
        url, keys_of = request.place.url, self._finder.keys_of
        ranges = self._frames.rows_of(url, search.ranges, RANGES).where(F.col("bits") != 0)
        count = _rows(search.ranges)
        found: list[Part] = []
        partitions: set[str] = set()
        if (earlier := search.earlier) is not None and earlier.ranges:
            known = self._frames.rows_of(url, earlier.ranges, RANGES).select("address")
            ranges = ranges.join(known, on="address", how="left_anti")
        if earlier is not None:
            for lines in self._find_changed(request, search):
                found += _of(lines, KEY_FILE)
                partitions.update(*(report["partitions"] for report in lines.reports()))
                notes.index_bytes += lines.sum("bytes")
        if count:
            tasks = max(1, min(2 * self._frames.tasks, count))
            read = partial(
                lifecycle.read_fresh,
                request.format,
                search.classes,
                list(search.edges),
                search.index,
                request.work,
                keys_of,
            )
            spread = ranges.select(*RANGES.names).repartition(tasks)
            lines = self._frames.run(spread, read)
            notes.index = [part for part in lines.parts if part.group != KEY_FILE]
            found += _of(lines, KEY_FILE)
            for report in lines.reports():
                notes.read.add(LifecycleRead(**report["read"]))
                partitions.update(report["partitions"])
        return tuple(found), None if earlier is None else frozenset(partitions)

    def _find_changed(self, request: FindRequest, search: LifecycleSearch) -> Sequence[Lines]:
        """The keys of what may be judged in another way than by the last run."""
        earlier, work = search.earlier, request.work
        assert earlier is not None
        own, keys_of = open_storage(work.url), self._finder.keys_of
        ranges, known = tuple(search.ranges), tuple(earlier.ranges)
        tables = [read_part(own, part) for part in ranges]
        now = pa.concat_tables([RANGES.empty_table(), *tables])
        changes = Changes(
            search.classes,
            lifecycle.load_ranges(work.url, ranges),
            earlier.classes,
            lifecycle.load_ranges(work.url, known),
        )
        parts = lifecycle_index.find_changed_parts(changes, now, earlier.index)
        both = search.classes, earlier.classes
        find = partial(lifecycle.find_changed, earlier.url, ranges, known, both, work, keys_of)
        carry = partial(lifecycle.find_carried, request.format, earlier.url, work, keys_of)
        jobs = ((parts, find), (earlier.carried, carry))
        return [self._run(some, task) for some, task in jobs if some]

    def _find_deduplications(
        self,
        request: FindRequest,
        search: LifecycleSearch,
        matched: Keys,
        partitions: frozenset[str] | None,
        notes: LifecycleFindings,
    ) -> None:
        """Decide on addresses by every path that refers to them."""
        sources = [(request.place.url, notes.index)]
        if search.earlier is not None and partitions is not None:
            parts = lifecycle_index.overlapping(search.earlier.index, partitions)
            sources.append((search.earlier.url, parts))
            own = open_storage(search.earlier.url)
            notes.index_bytes += sum(own.head(part.address).size for part in parts)
        rows = self._rows_of(request, search, matched, partitions, sources)
        if rows is None:
            return
        decide = partial(lifecycle.decide, search.classes, search.names, search.found)
        count = _rows(matched)
        tasks = max(1, min(2 * self._frames.tasks, -(-count // 50_000)))
        lines = self._frames.run(rows.repartition(tasks, "address"), decide, shuffled=count)
        notes.rows = _of(lines, ROW_FILE)
        notes.addresses = _of(lines, ADDRESS_FILE)
        notes.held = _of(lines, HELD_FILE)

    def _rows_of(
        self,
        request: FindRequest,
        search: LifecycleSearch,
        matched: Keys,
        partitions: frozenset[str] | None,
        sources: Sequence[tuple[str, Sequence[Part]]],
    ) -> DataFrame | None:
        work, keys_of, ranges = request.work.url, self._finder.keys_of, tuple(search.ranges)
        frames = []
        for url, parts in sources:
            if not parts:
                continue
            if not self._finder.exceed_lookup(matched):
                read = partial(
                    lifecycle.select_rows, url, work, ranges, matched, partitions, keys_of
                )
                frames.append(self._frames.files(parts).map(read, ROWS))
                continue
            read = partial(lifecycle.keyed_rows, url, work, ranges, partitions, keys_of)
            keyed = self._frames.files(parts).map(read, ROWS.append(JOIN_KEY))
            wanted = self._frames.files(matched).map(
                partial(read_keys, work), pa.schema([JOIN_KEY])
            )
            rows = keyed.join(wanted.distinct(), on="key", how="left_semi")
            frames.append(rows.select(*ROWS.names))
        return reduce(lambda one, other: one.union(other), frames) if frames else None

    def _find_objects(
        self, request: FindRequest, search: LifecycleSearch, found: Candidates
    ) -> None:
        """The candidates among what goes: what is there, held by nothing, and may be taken."""
        notes, format = found.lifecycle, request.format
        assert notes is not None
        keys, found.read = self._finder.write_keys(
            format, NO_CONTAINERS, request.held, (), request.work
        )
        if request.objects.parts:
            count = partial(lifecycle.count_listed, format, request.objects.url)
            counted = self._run(request.objects.parts, count)
            found.objects, found.size = counted.sum("objects"), counted.sum("size")
            notes.objects = counted.sum("data")
        going = notes.addresses
        notes.addresses = ()
        if not going:
            return
        rows, tasks = self._frames.rows_of(request.place.url, going, ADDRESSES), 1
        own = F.col("address").startswith(format.prefix)
        rows = rows.where(own)
        tasks = max(1, min(2 * self._frames.tasks, -(-_rows(going) // LOOKED_UP_BY_A_TASK)))
        if request.objects.parts:
            listed = self._listed(request, going)
            there = rows.join(listed, on="address", how="inner").select(*THERE.names)
        else:
            look_up = partial(lifecycle.look_up_going, format)
            there = map_rows(rows.repartition(tasks), look_up, THERE)
        judge = partial(
            lifecycle.judge,
            format,
            search.classes,
            request.rules,
            keys.live,
            self._finder.keys_of,
            request.place,
            search.found,
        )
        lines = self._frames.run(there, judge, shuffled=2 * _rows(going))
        found.parts = _of(lines, CANDIDATE_FILE)
        notes.addresses = _of(lines, ADDRESS_FILE)
        notes.held = [*notes.held, *_of(lines, HELD_FILE)]
        for report in lines.reports():
            found.verdict.add(Verdict.decode(report["verdict"]))
        if not request.objects.parts:
            found.objects, found.size = lines.sum("there"), lines.sum("size")
        notes.gone = _rows(going) - lines.sum("there")

    def _listed(self, request: FindRequest, going: Sequence[Part]) -> DataFrame:
        """The listed objects that may be among what goes."""
        work, keys_of = request.work, self._finder.keys_of
        written = self._run(going, partial(lifecycle.write_going_keys, work, keys_of))
        wanted = tuple(written.parts)
        if self._finder.exceed_lookup(wanted):
            return self._frames.rows_of(request.objects.url, request.objects.parts, LISTED)
        find = partial(lifecycle.find_listed, request.objects.url, work.url, wanted, keys_of)
        return self._frames.files(request.objects.parts).map(find, LISTED)

    # Judging again, carrying on, publishing

    def rejudge(self, request: RejudgeRequest) -> Rejudged:
        expanded = self._expanded(request)
        if expanded is None:
            return Rejudged()
        place, keys_of = request.place, self._finder.keys_of
        planned = self._run(request.rows, partial(lifecycle.write_going_keys, place, keys_of))
        wanted = tuple(planned.parts)
        newly = partial(lifecycle.newly_reached, place.url, tuple(request.ranges))
        fresh = map_rows(_each_once(expanded), newly, RANGES)
        write = partial(lifecycle.write_ranges, place.below("fresh"))
        shuffled = 100 * request.metaranges.num_rows
        lines = self._frames.run(fresh, write, shuffled=shuffled)
        ranges, expected = _of(lines, RANGE_FILE), lines.sum("ranges")
        if not expected:
            return Rejudged(metaranges=lines.sum("metaranges"))
        tasks = max(1, min(2 * self._frames.tasks, expected))
        read = partial(lifecycle.read_again, request.format, place, wanted, keys_of)
        spread = self._frames.rows_of(place.url, ranges, RANGES).repartition(tasks)
        again = self._frames.run(spread, read)
        rows = self._frames.rows_of(place.url, [*request.rows, *again.parts], ROWS)
        count = _rows(request.rows) + _rows(again.parts)
        pieces = max(1, min(2 * self._frames.tasks, -(-count // 50_000)))
        leave = partial(lifecycle.leave, request.classes, place.below("leaving"))
        left = self._frames.run(rows.repartition(pieces, "address"), leave, shuffled=count)
        return Rejudged(
            [part.address for part in left.parts],
            _rows(left.parts),
            lines.sum("metaranges"),
            expected,
            again.sum("ranges"),
            again.sum("entries"),
        )

    def carry(self, request: LifecycleCarryRequest) -> Sequence[Part]:
        url = request.source.url
        read = partial(lifecycle.read_names, url)
        stayed = [*request.held, *request.planned]
        if not stayed:
            return ()
        rows = self._frames.files(stayed).map(read, NAMES)
        if request.journal:
            taken = self._frames.files(request.journal).map(
                partial(lifecycle.read_taken, url), NAMES
            )
            rows = rows.join(taken, on="address", how="left_anti")
        count = _rows(stayed) + _rows(request.journal)
        write = partial(write_rows, request.place)
        return self._frames.run(rows.distinct(), write, shuffled=count).parts

    def publish(self, request: PublishRequest) -> None:
        if request.addresses:
            work = partial(lifecycle.publish, request.run, request.url, request.place)
            self._run(request.addresses, work)

    def _run(self, parts: Sequence[Part], work: Work) -> Lines:
        """Run work on parts, in this process if there is little of it."""
        if _rows(parts) <= self._finder.driver_row_limit:
            return run_here(work, files_table(parts))
        return self._frames.run(self._frames.files(parts), work)


def _each_once(listed: DataFrame) -> DataFrame:
    """Ranges, each once with the union of what reaches it; rows with counts are added up."""
    is_count = F.col("address") == ""
    counted = F.when(is_count, F.sum(F.when(is_count, F.col("detail").cast("long"))))
    return (
        listed.groupBy("address")
        .agg(
            F.coalesce(counted.cast("string"), F.min("detail")).alias("detail"),
            F.when(is_count, F.sum("entries")).otherwise(F.min("entries")).alias("entries"),
            F.bit_or("bits").alias("bits"),
            F.min("holder").alias("holder"),
            F.min("branch").alias("branch"),
        )
        .select(*RANGES.names)
    )


def _of(lines: Lines, group: str) -> list[Part]:
    return [part for part in lines.parts if part.group == group]


def _rows(parts: Sequence[Part]) -> int:
    return sum(part.rows for part in parts)
