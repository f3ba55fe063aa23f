"""What goes wrong on an executor comes back in our words."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from reclaim.engine.spark.failures import task, translated
from reclaim.engine.work.lines import Work
from reclaim.errors import Corrupt, PlanRefused, ReclaimError, TransactionFailed, Unavailable


def failing(fail: Callable[[], None]) -> Work:
    """Work that reads its input and then fails."""

    def run(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for _ in tables:
            fail()
            yield pa.table({"id": pa.array([0], pa.int64())})

    return run


def run(spark: SparkSession, fail: Callable[[], None]) -> None:
    with translated():
        spark.range(1).mapInArrow(task(failing(fail)), "id bigint").collect()


@pytest.mark.parametrize(
    "raised",
    [
        Corrupt("it is damaged", hint="restore it"),
        PlanRefused('naïve\n"quoted" — {braces}', hint="über }", where="a/b\\c", count=3),
        Corrupt("long" * 5_000),
        TransactionFailed("lost"),
        ReclaimError("anything"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_ours_comes_back_as_itself(spark: SparkSession, raised: ReclaimError) -> None:
    body, made = raised.body(), type(raised)

    def fail() -> None:
        details = body.get("details", {})
        raise made(body["message"], hint=body.get("hint"), **details)

    with pytest.raises(ReclaimError) as caught:
        run(spark, fail)
    assert type(caught.value) is made
    assert caught.value.body() == body


def test_a_foreign_error_is_told_by_its_last_line(spark: SparkSession) -> None:
    def fail() -> None:
        raise KeyError("odd")

    with pytest.raises(Unavailable, match=r"job: KeyError: 'odd'$"):
        run(spark, fail)


def test_a_worker_that_dies_is_told(spark: SparkSession) -> None:
    def fail() -> None:
        os._exit(9)

    with pytest.raises(Unavailable, match="Python worker exited unexpectedly"):
        run(spark, fail)


def test_a_job_that_spark_refuses_is_told_in_its_first_words(spark: SparkSession) -> None:
    with pytest.raises(Unavailable, match="nope"), translated():
        spark.sql("SELECT nope").collect()


def test_an_error_of_ours_on_the_driver_is_left_alone() -> None:
    error = Corrupt("here")
    with pytest.raises(Corrupt) as caught, translated():
        raise error
    assert caught.value is error
