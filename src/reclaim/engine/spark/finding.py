"""Finding candidates: what is live is written down as keys, and objects are compared with those.

A key has eight bytes for each address. Up to ``lookup_limit`` of them are loaded by every process
that judges objects, so that the objects stay where they are; beyond that Spark joins the two by
key. Where nothing has to be read and there is little to compare, the driver does it by itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from reclaim.engine.answers import Candidates, ContainerFiles, Read
from reclaim.engine.requests import ConfirmRequest, FindRequest
from reclaim.engine.spark.failures import Work
from reclaim.engine.spark.frames import Frames, Lines, map_rows
from reclaim.engine.spark.work import candidates, containers
from reclaim.engine.spark.work.candidates import Source
from reclaim.engine.spark.work.containers import JOIN_KEY
from reclaim.engine.spark.work.lines import after, files_table
from reclaim.engine.spark.work.parts import read_parts
from reclaim.engine.tasks.judging import CANDIDATES, SURVIVORS, Verdict
from reclaim.engine.tasks.keys import KeysOf
from reclaim.engine.tasks.parts import Part, Place, open_storage, read_part
from reclaim.engine.tasks.reading import LIVE, READ
from reclaim.engine.tasks.sampling import Sample
from reclaim.storage import LISTED
from reclaim.stores.format import CONTAINERS, Format, ReadsContainers

LOOKUP_LIMIT = 32_000_000
"""A quarter of a gigabyte of keys in each process."""
DRIVER_ROW_LIMIT = 1_000_000
"""So many rows are compared on the driver: some hundred megabytes, and about a second."""

Keys = tuple[Part, ...]
"""Files with keys."""


@dataclass(frozen=True, slots=True)
class WrittenKeys:
    """The keys of what is live, with a sample of it, and of what is dead with the causes."""

    live: Keys = ()
    dead: Keys = ()
    sample: Sample = field(default_factory=Sample)

    @classmethod
    def of(cls, lines: Lines) -> WrittenKeys:
        parts = lines.parts
        return cls(
            live=tuple(part for part in parts if part.group != containers.DEAD),
            dead=tuple(part for part in parts if part.group == containers.DEAD),
            sample=sample_in(lines),
        )


class Finder:
    """Compares objects and candidates with what is live."""

    def __init__(
        self, frames: Frames, *, lookup_limit: int, driver_row_limit: int, keys_of: KeysOf
    ) -> None:
        self._frames = frames
        self._lookup_limit = lookup_limit
        self.driver_row_limit = driver_row_limit
        self.keys_of = keys_of

    def find(self, request: FindRequest) -> Candidates:
        source = Source(request.format, request.objects)
        judge = partial(
            candidates.judge, request.format, request.rules, request.place, self.keys_of
        )
        if self._fits_driver(request):
            return self._find_on_driver(request, source, judge)
        by_key = bool(request.containers.dead) and _lacks_paths(request.format)
        keys, read = self.write_keys(
            request.format, request.containers, request.held, (), request.work, dead=by_key
        )
        live, dead_keys = keys.live, keys.dead
        by_key = by_key and not self.exceed_lookup(dead_keys)
        found = Candidates(read=read, sample=keys.sample)
        source = replace(source, sample=keys.sample.keys)
        if not request.objects.parts:
            return found
        objects = _rows(request.objects.parts)
        if (request.containers.dead and not by_key) or self.exceed_lookup(live):
            seen = self.write_survivors(source, live, request.work)
            count_looked_at(found, seen)
            if not seen.parts:
                return found
            survivors = self._frames.rows_of(request.place.url, seen.parts, SURVIVORS)
            if request.containers.dead:
                dead = self._dead(request.format, request.containers, request.place)
                survivors = survivors.drop("path", "kind", "cause").join(
                    dead, on="address", how="left"
                )
            lines = self._frames.run(survivors.select(*SURVIVORS.names), judge, shuffled=objects)
        else:
            if by_key:
                url = request.work.url
                judge = partial(candidates.explain_by_key, url, dead_keys, self.keys_of, judge)
            look = partial(candidates.survivors, source, request.work.url, live, self.keys_of)
            files = self._frames.files(request.objects.parts)
            lines = self._frames.run(files, partial(candidates.with_counts, look, judge))
            count_looked_at(found, lines)
        return judged(found, lines)

    def confirm(self, request: ConfirmRequest) -> Candidates:
        keys, read = self.write_keys(
            request.format, request.revived, request.held, request.done, request.work
        )
        live = keys.live
        if not request.candidates:
            return Candidates(read=read)
        keep = partial(candidates.keep_closed, request.closed, request.place)
        files = self._frames.files(request.candidates)
        url = request.place.url
        if self.exceed_lookup(live):
            with_keys = partial(candidates.with_keys, partial(read_parts, url), self.keys_of)
            rows = files.map(with_keys, CANDIDATES.append(JOIN_KEY))
            left = rows.join(self.key_rows(live, url), on="key", how="left_anti")
            shuffled = _rows(request.candidates) + _rows(live)
            lines = self._frames.run(left.select(*CANDIDATES.names), keep, shuffled=shuffled)
        else:
            drop = partial(candidates.unlisted, url, live, self.keys_of)
            lines = self._frames.run(files, partial(after, drop, keep))
        return Candidates(parts=lines.parts, read=read)

    def _fits_driver(self, request: FindRequest) -> bool:
        """Whether less time goes into the work than into the jobs that would spread it.

        Only where containers are taken by name: reading is for executors.
        """
        if request.format.reads:
            return False
        rows = _rows((*request.objects.parts, *request.containers.parts))
        return rows <= self.driver_row_limit

    def _find_on_driver(self, request: FindRequest, source: Source, judge: Work) -> Candidates:
        """Do what ``find`` does, by the same tasks, in this process."""
        work = request.work
        storage = open_storage(work.url)
        tables = [read_part(storage, part) for part in request.containers.parts]
        named = pa.concat_tables([CONTAINERS.empty_table(), *tables])
        is_live = pc.equal(named.column("cause"), LIVE)
        extra = containers.extra_sources(request.held, ())
        needed = pa.concat_tables([named.filter(is_live), extra])
        write = partial(containers.write_keys, source.format, work, self.keys_of)
        written = run_here(write, needed)
        keys = WrittenKeys.of(written)
        live = keys.live
        found = Candidates(read=_read(written), sample=keys.sample)
        source = replace(source, sample=keys.sample.keys)
        look = partial(candidates.survivors, source, work.url, live, self.keys_of)
        dead = named.filter(pc.invert(is_live)).select(["address", "kind", "cause"])
        explain = partial(candidates.explain, dead, judge)
        with_counts = partial(candidates.with_counts, look, explain)
        lines = run_here(with_counts, files_table(source.objects.parts))
        count_looked_at(found, lines)
        return judged(found, lines)

    def write_keys(
        self,
        format: Format,
        needed: ContainerFiles,
        held: Sequence[str],
        done: Sequence[Part],
        place: Place,
        *,
        dead: bool = False,
    ) -> tuple[WrittenKeys, Read]:
        """Write down the keys of all that is needed, or was done, and say how much was read.

        With ``dead`` also those of what dead containers list.
        """
        count = needed.containers + (needed.dead if dead else 0)
        if not (count or held or done):
            return WrittenKeys(), Read()
        rows = self._frames.frame(containers.extra_sources(held, done))
        extra = len(held) + len(done)
        if extra > 1:
            rows = rows.repartition(min(2 * self._frames.tasks, extra))
        if count:
            listed = self._frames.rows_of(place.url, needed.parts, CONTAINERS)
            tasks = min(2 * self._frames.tasks, count)
            if not dead:
                listed = listed.where(F.col("cause") == LIVE)
            rows = listed.repartition(tasks).select(*CONTAINERS.names).union(rows)
        write = partial(containers.write_keys, format, place, self.keys_of)
        lines = self._frames.run(rows, write)
        return WrittenKeys.of(lines), _read(lines)

    def write_survivors(self, source: Source, live: Keys, place: Place) -> Lines:
        """Write down the objects whose keys are not live; the reports count all of them."""
        files = self._frames.files(source.objects.parts)
        write = partial(candidates.write_survivors, place)
        if not self.exceed_lookup(live):
            look = partial(candidates.survivors, source, place.url, live, self.keys_of)
            return self._frames.run(files, partial(candidates.with_counts, look, write))
        shuffled = _rows(source.objects.parts) + _rows(live)
        read = partial(candidates.with_keys, source.read, self.keys_of)
        rows = files.map(read, LISTED.append(JOIN_KEY))
        left = rows.join(self.key_rows(live, place.url), on="key", how="left_anti")
        lines = self._frames.run(left.select(*LISTED.names), write, shuffled=shuffled)
        # Spark has no unsigned numbers.
        signed = np.array(source.sample, np.uint64).view(np.int64).tolist()
        is_sampled = F.col("key").isin(signed).cast("long")
        totals = rows.agg(
            F.count("size").alias("objects"),
            F.sum("size").alias("size"),
            F.sum(is_sampled).alias("sampled"),
        )
        (whole,) = self._frames.collect(totals)
        report = {name: whole[name] or 0 for name in ("objects", "size", "sampled")}
        return Lines([*lines.rows, {"address": "", "report": json.dumps(report)}])

    def key_rows(self, live: Keys, url: str) -> DataFrame:
        files = self._frames.files(live)
        return files.map(partial(containers.read_keys, url), pa.schema([JOIN_KEY]))

    def exceed_lookup(self, live: Keys) -> bool:
        return _rows(live) > self._lookup_limit

    def _dead(self, format: Format, needed: ContainerFiles, place: Place) -> DataFrame:
        """Addresses that dead containers listed, each once, with the least cause."""
        rows = self._frames.rows_of(place.url, needed.parts, CONTAINERS)
        tasks = min(2 * self._frames.tasks, needed.dead)
        spread = rows.where(F.col("cause") != LIVE).repartition(tasks)
        listed = map_rows(spread, partial(containers.read_dead, format), READ)
        # Of equal causes the first path: what a plan says must not depend on who was read first.
        best = F.min(F.struct("cause", "path", "kind")).alias("best")
        each = listed.groupBy("address").agg(best)
        return each.select("address", "best.path", "best.kind", "best.cause")


def _lacks_paths(format: Format) -> bool:
    return isinstance(format, ReadsContainers) and not format.has_paths


def _rows(parts: Sequence[Part]) -> int:
    return sum(part.rows for part in parts)


def run_here(work: Work, rows: pa.Table) -> Lines:
    """Run a task here, without Spark, and give its lines."""
    return Lines([line for table in work(iter([rows])) for line in table.to_pylist()])


def _read(lines: Lines) -> Read:
    return Read(lines.sum("containers"), lines.sum("entries"), lines.sum("held"))


def sample_in(*jobs: Lines) -> Sample:
    """The sample of what is live that tasks have reported."""
    reports = (report for lines in jobs for report in lines.reports())
    return Sample.of(report[containers.SAMPLE] for report in reports)


def count_looked_at(found: Candidates, lines: Lines) -> None:
    found.objects += lines.sum("objects")
    found.size += lines.sum("size")
    found.sampled += lines.sum("sampled")


def judged(found: Candidates, lines: Lines) -> Candidates:
    found.parts = lines.parts
    for report in lines.reports():
        found.verdict.add(Verdict.decode(report["verdict"]))
    return found
