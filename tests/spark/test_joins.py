"""Sides of a join are never sent through the driver, however small they look."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from reclaim.engine.spark.frames import Frames

NAMES = pa.schema([pa.field("address", pa.string(), nullable=False)])


def many(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    for table in tables:
        for name in table.column("address").to_pylist():
            yield pa.table({"address": [f"{name}-{at}" for at in range(1_000)]}, schema=NAMES)


def test_rows_that_tasks_read_are_joined_on_executors(spark: SparkSession) -> None:
    frames = Frames(spark, tasks=2)

    def rows() -> DataFrame:
        return frames.spread(pa.table({"address": ["a", "b"]}, schema=NAMES)).map(many, NAMES)

    for how in ("left_semi", "left_anti", "left", "inner"):
        joined = rows().join(rows(), on="address", how=how)
        plan = joined._jdf.queryExecution().executedPlan().toString()
        assert "SortMergeJoin" in plan, plan
        assert "Broadcast" not in plan, plan
