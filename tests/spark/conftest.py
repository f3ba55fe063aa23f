"""One Spark session for each test process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from reclaim.engine.spark.session import build_session
from tests.spark.paired import pairing
from tests.support.servers import SeaweedFS


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = build_session(master="local[2]")
    yield session
    session.stop()


@pytest.fixture
def reached(spark: SparkSession, s3: SeaweedFS, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors that were started before the S3 server are told where it is."""
    environment: dict[str, str] = spark.sparkContext.environment
    for name, value in s3.environment.items():
        monkeypatch.setitem(environment, name, value)


@pytest.fixture(autouse=True)
def _pairs() -> Iterator[None]:
    with pairing():
        yield
