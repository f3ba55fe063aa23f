"""Protection of a store, on Spark: the paths that its globs match, wherever they are told."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import functions as F

from reclaim.engine.spark.failures import Work
from reclaim.engine.spark.finding import Finder, run_here
from reclaim.engine.spark.frames import Frames, Lines
from reclaim.engine.spark.work import shielding
from reclaim.engine.spark.work.lines import files_table
from reclaim.engine.tasks.judging import PATHS
from reclaim.engine.tasks.parts import Part
from reclaim.engine.tasks.reading import LIVE
from reclaim.engine.tasks.shielding import Matches, MatchRequest, MergeRequest, ShieldRequest
from reclaim.stores.format import CONTAINERS


class ShieldingJobs:
    """The jobs for globs that a store protects."""

    def __init__(self, frames: Frames, finder: Finder) -> None:
        self._frames = frames
        self._finder = finder

    def match(self, request: MatchRequest) -> Matches:
        place = request.place
        if not request.containers:
            write = partial(shielding.write_listed, request.globs, place)
            lines = self._run(request.listed, write)
            return Matches(lines.parts, lines.sum("containers"))
        rows = self._frames.rows_of(place.url, request.containers, CONTAINERS)
        count = sum(part.rows for part in request.containers)
        tasks = max(1, min(2 * self._frames.tasks, count))
        dead = rows.where(F.col("cause") != LIVE).repartition(tasks)
        write = partial(shielding.write_matches, request.format, request.globs, place)
        lines = self._frames.run(dead, write)
        return Matches(lines.parts, lines.sum("containers"), lines.sum("unread"))

    def shield(self, request: ShieldRequest) -> Sequence[Part]:
        globs, place = request.globs, request.place
        written: list[Part] = []
        for url, parts in ((place.url, request.matches), (request.url, request.remembered)):
            written += self._run(parts, partial(shielding.write_shields, url, globs, place)).parts
        if request.files:
            names = pa.table({"address": pa.array(request.files, pa.string())})
            write = partial(shielding.write_hashed_shields, globs, place)
            # A file of the store has some ten thousand rows.
            here = len(request.files) == 1
            lines = (
                run_here(write, names)
                if here
                else self._frames.run(self._frames.spread(names), write)
            )
            written += lines.parts
        return written

    def merge(self, request: MergeRequest) -> Sequence[Part]:
        url, place = request.place.url, request.place
        rows = self._frames.rows_of(url, request.parts, PATHS).distinct()
        write = partial(shielding.write_distinct, request.globs, place)
        shuffled = sum(part.rows for part in request.parts)
        return self._frames.run(rows, write, shuffled=shuffled).parts

    def _run(self, parts: Sequence[Part], work: Work) -> Lines:
        """Run work on parts, in this process if they are small."""
        if not parts:
            return Lines(())
        if sum(part.rows for part in parts) <= self._finder.driver_row_limit:
            return run_here(work, files_table(parts))
        return self._frames.run(self._frames.files(parts), work)
