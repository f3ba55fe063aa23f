"""A session that an engine starts once, when a run needs it."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from reclaim.engine import pipelines
from reclaim.engine.spark.engine import SparkEngine
from reclaim.engine.tasks.parts import Part, Place
from reclaim.errors import Unavailable


def test_a_session_is_started_once(spark: SparkSession) -> None:
    started: list[SparkSession] = []

    def start() -> SparkSession:
        started.append(spark)
        return spark

    engine = SparkEngine(start)
    assert not started
    engine.start()
    engine.start()
    assert pipelines.verify(engine, [], cast(Any, None)) == {}
    assert started == [spark]


def test_a_failed_start_is_an_error_of_every_step() -> None:
    def fail() -> SparkSession:
        raise Unavailable("no Java")

    engine = SparkEngine(fail)
    steps: list[Any] = [
        engine.start,
        lambda: pipelines.verify(engine, [Part("a", 1, "")], Place("", "")),
    ]
    for step in steps:
        with pytest.raises(Unavailable, match="no Java"):
            step()
