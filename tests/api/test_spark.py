"""A Spark session of the caller: it is used, and left open."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import reclaim
from reclaim.errors import InvalidInput
from tests.spark.conftest import spark

__all__ = ["spark"]


def test_the_session_of_the_caller_is_used(spark: SparkSession, location: Path) -> None:
    seen: list[reclaim.Progress] = []
    with reclaim.open_store("sales", catalog=location, spark=spark, progress=seen.append) as store:
        plan = store.plan(reclaim.Policy(keep_last=1), min_age="0s", unsafe_allow_fraction=1)
        run = plan.apply(quarantine=True)
        assert run.undo().objects == plan.summary.objects > 0
    assert "start Spark" not in {reading.stage for reading in seen}
    assert spark.range(3).count() == 3
    table = spark.createDataFrame(plan.objects().to_pandas())
    assert table.agg({"size": "sum"}).collect()[0][0] == plan.summary.bytes


def test_a_session_is_for_spark_alone(spark: SparkSession, location: Path) -> None:
    with pytest.raises(InvalidInput, match="for the engine spark"):
        reclaim.open_store("sales", catalog=location, engine="local", spark=spark)
