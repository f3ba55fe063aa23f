"""Frames: work spread over the tasks of a session, and the jobs that run it.

The number of tasks of a job depends on its work and on the cores of the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from reclaim.engine.spark.cores import count_tasks
from reclaim.engine.spark.failures import task, translated
from reclaim.engine.spark.jobs import Jobs
from reclaim.engine.spark.meter import SparkMeter
from reclaim.engine.spark.schemas import spark_schema
from reclaim.engine.spark.session import PARTITIONS
from reclaim.engine.work.lines import (
    LINES,
    PACKED,
    Lines,
    Work,
    in_shares,
    pack,
    unpack,
    with_tally,
)

SENT_WITH_TASKS = 1024 * 1024
"""Work up to this many bytes is sent with the tasks themselves."""
ROWS_OF_A_TASK = 50_000
"""Rows worth a task of their own where Spark joins or groups."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Rows representing work. If there are few, ``rows`` has only the numbers of shares."""

    rows: DataFrame
    shares: Sequence[pa.Table] | None = None
    tally: str = ""
    """Folder where tasks report their progress, if somebody watches."""

    def map(self, work: Work, schema: pa.Schema) -> DataFrame:
        """Apply work to the rows, on executors."""
        if self.shares is not None:
            work = partial(in_shares, self.shares, work)
        if self.tally:
            work = partial(with_tally, self.tally, work)
        return self.rows.mapInArrow(task(work), spark_schema(schema))


class Frames:
    """Makes frames on a session, and runs jobs on them."""

    def __init__(
        self, spark: SparkSession, tasks: int | None = None, meter: SparkMeter | None = None
    ) -> None:
        self._spark = spark
        self._given = tasks
        self._partitions = 0
        self._tally = meter.folder if meter else ""
        self.jobs = Jobs(spark, meter)

    @cached_property
    def tasks(self) -> int:
        """Number of tasks a large job is cut into; determined on first use."""
        if self._given:
            return self._given
        with translated():
            return count_tasks(self._spark)

    def deal(self, shares: Sequence[pa.Table]) -> Spread:
        """Return rows with a task for each share. Spark would distribute them at random."""
        with translated():
            numbers = self._spark.range(0, len(shares), 1, len(shares))
            return Spread(numbers, shares, self._tally)

    def spread(self, table: pa.Table) -> Spread:
        """Return rows, each worth a task, spread evenly over at most ``tasks`` tasks."""
        tasks = max(1, min(2 * self.tasks, table.num_rows))
        if table.nbytes > SENT_WITH_TASKS:
            return Spread(self.frame(table).repartition(tasks), tally=self._tally)
        numbers = [pa.array(range(first, table.num_rows, tasks)) for first in range(tasks)]
        return self.deal([table.take(each.cast(pa.int64())) for each in numbers])

    def frame(self, table: pa.Table) -> DataFrame:
        """Return a table as a frame."""
        with translated():
            # Under Connect, Spark cannot infer types from an empty table.
            return self._spark.createDataFrame(table, schema=spark_schema(table.schema))

    def run(self, rows: DataFrame | Spread, work: Work, *, shuffled: int = 0) -> Lines:
        """Run a job whose tasks write files and return a few lines each.

        ``shuffled`` is the number of rows Spark groups or joins for it.
        """
        self._set_partitions(-(-shuffled // ROWS_OF_A_TASK))
        spread = rows if isinstance(rows, Spread) else Spread(rows)
        spread = replace(spread, tally=self._tally)
        with self.jobs.run():
            return Lines(spread.map(work, LINES).collect())

    def collect(self, rows: DataFrame, *, shuffled: int = 0) -> Sequence[Any]:
        """Run a job with few rows."""
        self._set_partitions(-(-shuffled // ROWS_OF_A_TASK))
        with self.jobs.run():
            return rows.collect()

    def gather(self, spread: Spread, work: Work, schema: pa.Schema) -> pa.Table:
        """Run a job whose tables come to the driver."""
        with self.jobs.run():
            return unpack(spread.map(partial(pack, work), PACKED).toArrow(), schema)

    def _set_partitions(self, wanted: int) -> None:
        """Set the number of partitions of groups and joins."""
        partitions = max(1, min(2 * self.tasks, wanted))
        if partitions != self._partitions:
            with translated():
                self._spark.conf.set(PARTITIONS, str(partitions))
            self._partitions = partitions
