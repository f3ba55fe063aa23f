"""Lifecycle rules on Spark: the five parts of a run as steps, each with its own name.

Ranges are grouped before an entry is read. Tasks match entries by columns and write them into the
index; what has to be decided on is told by keys, and then every path of these addresses comes to
one task, which decides by whole addresses. A collision of keys only adds what is decided on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import pairwise

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from reclaim.engine.answers import NO_CONTAINERS, Candidates
from reclaim.engine.lifecycle import (
    EarlierRun,
    LifecycleFindings,
    LifecycleSearch,
    PublishRequest,
    RangeFiles,
    RangesRequest,
    Rejudged,
    RejudgeRequest,
)
from reclaim.engine.pipelines.live_keys import Keys, sample_in
from reclaim.engine.requests import FindRequest
from reclaim.engine.spark.finding import Finder, run_here
from reclaim.engine.spark.frames import Frames, map_rows
from reclaim.engine.spark.work import lifecycle, lifecycle_later
from reclaim.engine.spark.work.lifecycle import (
    ADDRESS_FILE,
    CANDIDATE_FILE,
    CONTAINER_FILE,
    HELD_FILE,
    KEY_FILE,
    RANGE_FILE,
    ROW_FILE,
    SHARE,
    Wanted,
)
from reclaim.engine.spark.work.uncommitted import write_names
from reclaim.engine.tasks import lifecycle_ranges, sampling
from reclaim.engine.tasks.index import Span, overlapping
from reclaim.engine.tasks.judging import Verdict
from reclaim.engine.tasks.lifecycle import ADDRESSES, RANGES, ROWS
from reclaim.engine.tasks.parts import Part, open_storage, read_part, write_part
from reclaim.engine.tasks.rule_changes import RuleChanges, find_changed_parts
from reclaim.engine.tasks.sampling import Sample
from reclaim.engine.work.lines import Lines, Work, after, files_table
from reclaim.engine.work.parts import read_parts

LOOKED_UP_BY_A_TASK = 500
"""Objects that are worth a task of their own to look them up."""
ROWS_OF_A_SHARE = 500_000
"""Rows of the index that are worth a task of their own."""


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
            assert request.renumbering is not None
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
        # Without an earlier run everything that a rule matches is decided on.
        wanted = None
        if search.earlier is not None:
            wanted = self._find_changed(request, search, search.earlier, notes)
        going: Keys = ()
        if wanted is None or wanted.partitions:
            going = self._find_deduplications(request, search, wanted, notes)
        self._find_objects(request, search, found, going)
        return found

    def _find_changed(
        self,
        request: FindRequest,
        search: LifecycleSearch,
        earlier: EarlierRun,
        notes: LifecycleFindings,
    ) -> Wanted:
        """What may be judged in another way than by the last run."""
        work, keys_of = request.work, self._finder.keys_of
        ranges, known = tuple(search.ranges), tuple(earlier.ranges)
        own = open_storage(work.url)
        now = pa.concat_tables([RANGES.empty_table(), *(read_part(own, part) for part in ranges)])
        changes = RuleChanges(
            search.classes,
            lifecycle.load_ranges(work.url, ranges),
            earlier.classes,
            lifecycle.load_ranges(work.url, known),
        )
        old = [*find_changed_parts(changes, now, earlier.judged), *search.unjudged]
        classes = search.classes, earlier.classes

        def find(url: str) -> Work:
            return partial(lifecycle.find_changed, url, ranges, known, classes, work, keys_of)

        carry = partial(lifecycle.find_carried, request.format, search.url, work, keys_of)
        jobs = (
            (old, find(search.url)),
            (search.fresh, find(request.place.url)),
            (earlier.carried, carry),
        )
        keys: list[Part] = []
        partitions: set[str] = set()
        for parts, task in jobs:
            if parts:
                lines = self._run(parts, task)
                keys += _of(lines, KEY_FILE)
                partitions.update(*(report["partitions"] for report in lines.reports()))
                notes.index_bytes += lines.sum("bytes")
        too_many = self._finder.exceed_lookup(tuple(keys))
        return Wanted(frozenset(partitions), () if too_many else tuple(keys))

    def _find_deduplications(
        self,
        request: FindRequest,
        search: LifecycleSearch,
        wanted: Wanted | None,
        notes: LifecycleFindings,
    ) -> Keys:
        """Decide on addresses by every path that refers to them, partition by partition; returns
        the keys of those that go, to look for them in a listing."""
        sources = [
            *((search.url, part) for part in search.index),
            *((request.place.url, part) for part in search.fresh),
        ]
        cuts = list(search.edges)
        if wanted is not None:
            chosen = set(overlapping([part for _, part in sources], wanted.partitions))
            sources = [(url, part) for url, part in sources if part in chosen]
            cuts = self._cuts(wanted, [part for _, part in sources])
        shares = _shares(sources, cuts)
        if not shares:
            return ()
        decide = partial(
            lifecycle.decide,
            search.classes,
            search.names,
            tuple(search.ranges),
            wanted,
            self._finder.keys_of,
            search.found,
            request.work if request.objects.parts else None,
        )
        if sum(part.rows for _, part in sources) <= self._finder.driver_row_limit:
            lines = run_here(decide, pa.concat_tables(shares))
        else:
            tasks = min(len(shares), 2 * self._frames.tasks)
            dealt = [pa.concat_tables(shares[number::tasks]) for number in range(tasks)]
            lines = self._frames.run(self._frames.deal(dealt), decide)
        notes.index_bytes += lines.sum("bytes")
        notes.rows = _of(lines, ROW_FILE)
        notes.addresses = _of(lines, ADDRESS_FILE)
        notes.held = _of(lines, HELD_FILE)
        return tuple(_of(lines, KEY_FILE))

    def _cuts(self, wanted: Wanted, parts: Sequence[Part]) -> list[str]:
        """Partitions at which an incremental run shares its work: few, for a part that lies on
        both sides of one is read twice."""
        names = sorted(wanted.partitions)
        shares = min(len(names), 2 * self._frames.tasks, -(-_rows(parts) // ROWS_OF_A_SHARE))
        return [names[number * len(names) // shares] for number in range(1, shares)]

    def _find_objects(
        self, request: FindRequest, search: LifecycleSearch, found: Candidates, wanted: Keys
    ) -> None:
        """The candidates among what goes: what is there, held by nothing, and may be taken."""
        notes, format, keys_of = found.lifecycle, request.format, self._finder.keys_of
        assert notes is not None
        keys, found.read = self._finder.write_keys(
            format, NO_CONTAINERS, request.held, (), request.work
        )
        going, notes.addresses = notes.addresses, ()
        there: Callable[[pa.Table], pa.Table] = partial(lifecycle.look_up_going, format)
        if search.earlier is None:
            found.sample = self._sample(request)
        if request.objects.parts:
            there = self._find_listed(request, wanted, found)
        if not going:
            return
        judge = partial(
            lifecycle.judge,
            format,
            search.classes,
            request.rules,
            keys.live,
            keys_of,
            request.place,
            search.found,
            there,
        )
        url = request.place.url
        if request.objects.parts:
            lines = self._run(going, partial(after, partial(read_parts, url), judge))
        else:
            # Each of them is a request.
            tasks = max(1, min(2 * self._frames.tasks, -(-_rows(going) // LOOKED_UP_BY_A_TASK)))
            rows = self._frames.rows_of(url, going, ADDRESSES).repartition(tasks)
            lines = self._frames.run(rows, judge, shuffled=_rows(going))
            found.objects, found.size = lines.sum("there"), lines.sum("size")
        found.parts = [replace(part, group="") for part in _of(lines, CANDIDATE_FILE)]
        notes.addresses = _of(lines, ADDRESS_FILE)
        notes.held = [*notes.held, *_of(lines, HELD_FILE)]
        for report in lines.reports():
            found.verdict.add(Verdict.decode(report["verdict"]))
        notes.gone = lines.sum("owned") - lines.sum("there")

    def _sample(self, request: FindRequest) -> Sample:
        """Some of the live containers, which a listing must have."""
        if not request.containers.parts:
            return Sample()
        within = partial(sampling.below, request.format.prefix)
        write = partial(write_names, request.work, self._finder.keys_of, within)
        return sample_in(self._run(request.containers.parts, write))

    def _find_listed(
        self, request: FindRequest, wanted: Keys, found: Candidates
    ) -> Callable[[pa.Table], pa.Table]:
        """Count what is listed; returns what finds it of some addresses."""
        work, keys_of = request.work, self._finder.keys_of
        find = partial(
            lifecycle.find_listed,
            request.format,
            request.objects.url,
            work,
            wanted,
            keys_of,
            found.sample.keys,
        )
        lines = self._run(request.objects.parts, find)
        found.objects, found.size = lines.sum("objects"), lines.sum("size")
        found.sampled = lines.sum("sampled")
        assert found.lifecycle is not None
        found.lifecycle.objects = lines.sum("data")
        return partial(lifecycle.match_listed, work.url, tuple(lines.parts), keys_of)

    # Judging again, carrying on, publishing

    def rejudge(self, request: RejudgeRequest) -> Rejudged:
        expanded = self._expanded(request)
        if expanded is None:
            return Rejudged()
        place, keys_of = request.place, self._finder.keys_of
        planned = self._run(request.rows, partial(lifecycle.write_going_keys, place, keys_of))
        wanted = tuple(planned.parts)
        newly = partial(lifecycle_later.newly_reached, place.url, tuple(request.ranges))
        fresh = map_rows(_each_once(expanded), newly, RANGES)
        write = partial(lifecycle.write_ranges, place.below("fresh"))
        shuffled = 100 * request.metaranges.num_rows
        lines = self._frames.run(fresh, write, shuffled=shuffled)
        ranges, expected = _of(lines, RANGE_FILE), lines.sum("ranges")
        if not expected:
            return Rejudged(metaranges=lines.sum("metaranges"))
        tasks = max(1, min(2 * self._frames.tasks, expected))
        read = partial(lifecycle_later.read_again, request.format, place, wanted, keys_of)
        spread = self._frames.rows_of(place.url, ranges, RANGES).repartition(tasks)
        again = self._frames.run(spread, read)
        rows = self._frames.rows_of(place.url, [*request.rows, *again.parts], ROWS)
        count = _rows(request.rows) + _rows(again.parts)
        pieces = max(1, min(2 * self._frames.tasks, -(-count // 50_000)))
        leave = partial(
            lifecycle_later.leave, request.classes, tuple(request.protect), place.below("leaving")
        )
        left = self._frames.run(rows.repartition(pieces, "address"), leave, shuffled=count)
        return Rejudged(
            [part.address for part in left.parts],
            _rows(left.parts),
            lines.sum("metaranges"),
            expected,
            again.sum("containers"),
            again.sum("entries"),
        )

    def publish(self, request: PublishRequest) -> None:
        if request.addresses:
            work = partial(lifecycle_later.publish, request.run, request.url, request.place)
            self._run(request.addresses, work)

    def _run(self, parts: Sequence[Part], work: Work) -> Lines:
        """Run work on parts, in this process if there is little of it."""
        if _rows(parts) <= self._finder.driver_row_limit:
            return run_here(work, files_table(parts))
        return self._frames.run(self._frames.files(parts), work)


def _shares(sources: Sequence[tuple[str, Part]], cuts: Sequence[str]) -> list[pa.Table]:
    """Parts of the index for each interval of partitions: all that may have rows of it."""
    shares = []
    for first, last in pairwise(["", *cuts, None]):
        assert first is not None
        rows = [
            asdict(part) | {"url": url, "first": first, "last": last}
            for url, part in sources
            if _may_have(Span.of(part), first, last)
        ]
        if rows:
            shares.append(pa.Table.from_pylist(rows, schema=SHARE))
    return shares


def _may_have(span: Span, first: str, last: str | None) -> bool:
    return span.last >= first and (last is None or span.first < last)


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
