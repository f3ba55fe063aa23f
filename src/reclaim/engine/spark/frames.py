"""Frames: work spread over the tasks of a session, and the jobs that do it.

How many tasks a job has follows from its work and from the cores of the cluster.
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
    packed,
    told,
    unpacked,
)

SENT_WITH_TASKS = 1024 * 1024
"""Work of at most so many bytes is sent along with the tasks themselves."""
ROWS_OF_A_TASK = 50_000
"""Rows that are worth a task of their own where Spark joins or groups."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Rows that stand for work. Where they are few, ``rows`` has only the numbers of shares."""

    rows: DataFrame
    shares: Sequence[pa.Table] | None = None
    tally: str = ""
    """The folder where tasks tell what they have done, if somebody watches."""

    def map(self, work: Work, schema: pa.Schema) -> DataFrame:
        """Apply work to the rows, on executors."""
        if self.shares is not None:
            work = partial(in_shares, self.shares, work)
        if self.tally:
            work = partial(told, self.tally, work)
        return self.rows.mapInArrow(task(work), spark_schema(schema))


class Frames:
    """Makes frames on one session, and runs the jobs on them."""

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
        """How many tasks a large job is cut into; asked for when the first one comes."""
        if self._given:
            return self._given
        with translated():
            return count_tasks(self._spark)

    def deal(self, shares: Sequence[pa.Table]) -> Spread:
        """Shares, a task for each. Spark would deal out rows by chance."""
        with translated():
            numbers = self._spark.range(0, len(shares), 1, len(shares))
            return Spread(numbers, shares, self._tally)

    def spread(self, table: pa.Table) -> Spread:
        """Rows, each of which is worth a task, evenly among no more tasks than that."""
        tasks = max(1, min(2 * self.tasks, table.num_rows))
        if table.nbytes > SENT_WITH_TASKS:
            return Spread(self.frame(table).repartition(tasks), tally=self._tally)
        numbers = [pa.array(range(first, table.num_rows, tasks)) for first in range(tasks)]
        return self.deal([table.take(each.cast(pa.int64())) for each in numbers])

    def frame(self, table: pa.Table) -> DataFrame:
        """A table as it is."""
        with translated():
            # A table without rows does not tell its types by itself under Connect.
            return self._spark.createDataFrame(table, schema=spark_schema(table.schema))

    def run(self, rows: DataFrame | Spread, work: Work, *, shuffled: int = 0) -> Lines:
        """Run a job whose tasks write files; what comes back is a few lines for each task.

        ``shuffled`` are the rows that Spark has to group or join for it.
        """
        self._set_partitions(-(-shuffled // ROWS_OF_A_TASK))
        spread = rows if isinstance(rows, Spread) else Spread(rows)
        spread = replace(spread, tally=self._tally)
        with self.jobs.run():
            return Lines(spread.map(work, LINES).collect())

    def collect(self, rows: DataFrame, *, shuffled: int = 0) -> Sequence[Any]:
        """Run a job that has few rows."""
        self._set_partitions(-(-shuffled // ROWS_OF_A_TASK))
        with self.jobs.run():
            return rows.collect()

    def gather(self, spread: Spread, work: Work, schema: pa.Schema) -> pa.Table:
        """Run a job whose tables come to the driver."""
        with self.jobs.run():
            return unpacked(spread.map(partial(packed, work), PACKED).toArrow(), schema)

    def _set_partitions(self, wanted: int) -> None:
        """Say into how many pieces Spark cuts what it groups or joins."""
        partitions = max(1, min(2 * self.tasks, wanted))
        if partitions != self._partitions:
            with translated():
                self._spark.conf.set(PARTITIONS, str(partitions))
            self._partitions = partitions
