"""The engine on Spark: the tasks of a run on executors, and the joins between them.

It uses only the DataFrame API that Spark Connect has, too. Tasks access storage through obstore, in
``mapInArrow``; they write their results as parts and return a line for each, so no data-sized
result comes to the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import SparkSession

from reclaim.clock import SystemClock
from reclaim.engine.answers import Objects, Surveyed
from reclaim.engine.base import JobRunner
from reclaim.engine.in_process import InProcess
from reclaim.engine.pipelines.live_keys import LOOKUP_LIMIT
from reclaim.engine.rows import Rows
from reclaim.engine.spark.cores import TASKS_PER_CORE
from reclaim.engine.spark.frames import Frames
from reclaim.engine.spark.meter import SparkMeter
from reclaim.engine.spark.rows import SparkRows, unchanged
from reclaim.engine.spark.session import works_here
from reclaim.engine.tasks.keys import KeysOf, keys_of
from reclaim.engine.tasks.parts import Part, Place, open_storage, read_part
from reclaim.engine.work import listing
from reclaim.engine.work.lines import Lines, Work, files_table, in_sequence
from reclaim.process import note_remote_work
from reclaim.storage import KeyRange, Storage
from reclaim.storage.key_range import shares
from reclaim.stores.format import SNAPSHOTS, DecodesSnapshots, Format, SurveysContainers

DRIVER_ROW_LIMIT = 1_000_000
"""Rows compared on the driver: some hundred megabytes, and about a second."""
LISTED_BY_A_TASK = 64
"""Folders worth a further task beyond the number of cores, in a storage reached by requests."""


class SparkEngine:
    """Runs the tasks of a run on a Spark session stopped by its owner.

    A session given as a function is started by ``start``, or by the first step.
    """

    def __init__(
        self,
        session: SparkSession | Callable[[], SparkSession],
        *,
        tasks: int | None = None,
        metered: Callable[[SparkSession], SparkMeter] | None = None,
        lookup_limit: int = LOOKUP_LIMIT,
        driver_row_limit: int = DRIVER_ROW_LIMIT,
        keys_of: KeysOf = keys_of,
    ) -> None:
        """``tasks`` is the number a large job is cut into; by default twice the cores of the
        session.

        ``metered`` makes the meter of the session, for people who watch its progress.
        """
        self._session = session
        self._given_tasks = tasks
        self._metered = metered
        self.lookup_limit = lookup_limit
        self.driver_row_limit = driver_row_limit
        self.keys_of = keys_of
        self.clock = SystemClock()

    def start(self) -> None:
        _ = self._frames

    @cached_property
    def _frames(self) -> Frames:
        spark = self._session() if callable(self._session) else self._session
        if not works_here(spark):
            note_remote_work()
        return Frames(spark, self._given_tasks, self._metered(spark) if self._metered else None)

    def ended(self) -> bool:
        # An executor in the middle of a page finishes it even if cancelled, and the driver cannot
        # see when it stops.
        return False

    @property
    def tasks(self) -> int:
        return self._frames.tasks

    def runner_for(self, rows: int) -> JobRunner:
        few = rows <= self.driver_row_limit
        return InProcess(keys_of=self.keys_of) if few else self

    def can_load(self, rows: int) -> bool:
        return rows <= self.lookup_limit

    def open(self, url: str) -> Storage:
        return open_storage(url)

    def spread(self, table: pa.Table) -> SparkRows:
        spread = self._frames.spread(table)
        return SparkRows(spread, unchanged, table.schema, tuple(table.schema.names))

    def files(self, parts: Sequence[Part]) -> SparkRows:
        return self.spread(files_table(parts))

    def run(self, step: str, rows: Rows, work: Work, *, shuffled: int = 0) -> Lines:  # noqa: ARG002
        given = cast(SparkRows, rows)
        if given.schema is None:
            return self._frames.run(given.frame, work, shuffled=shuffled)
        whole = work if given.work is unchanged else partial(in_sequence, given.work, work)
        return self._frames.run(given.source, whole, shuffled=shuffled)

    def collect(self, step: str, rows: Rows, *, shuffled: int = 0) -> Sequence[Any]:  # noqa: ARG002
        return self._frames.collect(cast(SparkRows, rows).frame, shuffled=shuffled)

    def list(self, format: Format, ranges: Sequence[KeyRange], place: Place) -> Objects:
        if not ranges:
            return Objects(place.url, ())
        dealt = self._frames.deal(self._shares(format, ranges))
        lines = self._frames.run(dealt, partial(listing.list_keys, format, place))
        return Objects(place.url, lines.parts)

    def survey(self, format: DecodesSnapshots, ranges: Sequence[KeyRange]) -> pa.Table:
        if not ranges:
            return SNAPSHOTS.empty_table()
        dealt = self._frames.deal(self._shares(format, ranges))
        return self._frames.gather(dealt, partial(listing.survey, format), SNAPSHOTS)

    def survey_containers(
        self, format: SurveysContainers, ranges: Sequence[KeyRange], place: Place
    ) -> Surveyed:
        if not ranges:
            return Surveyed(SNAPSHOTS.empty_table(), ())
        dealt = self._frames.deal(self._shares(format, ranges))
        lines = self._frames.run(dealt, partial(listing.survey_containers, format, place))
        storage = open_storage(place.url)
        listed, rows = [], [SNAPSHOTS.empty_table()]
        for part in lines.parts:
            if part.group == listing.SURVEYED:
                rows.append(read_part(storage, part))
            else:
                listed.append(part)
        return Surveyed(pa.concat_tables(rows), listed)

    def snapshots(self, format: DecodesSnapshots, addresses: Sequence[str]) -> pa.Table:
        if not addresses:
            return SNAPSHOTS.empty_table()
        spread = self._frames.spread(pa.table({"address": pa.array(addresses, pa.string())}))
        return self._frames.gather(spread, partial(listing.read_snapshots, format), SNAPSHOTS)

    def _shares(self, format: Format, ranges: Sequence[KeyRange]) -> Sequence[pa.Table]:
        tasks = self._frames.tasks
        cores = max(1, tasks // TASKS_PER_CORE)
        # Every piece of a folder on a disk reads all of its names.
        pieces = cores if format.root.startswith("file:") else None
        if pieces is None and not any(keys.after or keys.until for keys in ranges):
            # A task lists several folders at once, and so waits for none of them alone. Ranges of
            # the same folder are merged, a range for each task.
            tasks = min(tasks, max(cores, -(-len(ranges) // LISTED_BY_A_TASK)))
        return [listing.ranges_table(share) for share in shares(ranges, tasks, pieces=pieces)]

    def noncurrent(self, format: Format, folders: Sequence[str]) -> tuple[int, int]:
        if not folders:
            return 0, 0
        spread = self._frames.spread(pa.table({"folder": pa.array(folders, pa.string())}))
        lines = self._frames.run(spread, partial(listing.count_noncurrent, format))
        return lines.sum("objects"), lines.sum("size")
