"""No job is run where there is nothing to do, and one is wherever something is to be counted."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from reclaim.engine import pipelines
from reclaim.engine.answers import NO_CONTAINERS, ContainerFiles, Objects, Read
from reclaim.engine.requests import ConfirmRequest, FindRequest
from reclaim.engine.rows import Rows
from reclaim.engine.spark.engine import SparkEngine
from reclaim.engine.spark.rows import SparkRows
from reclaim.engine.tasks.judging import CandidateRules
from reclaim.engine.tasks.parts import Part, Place
from reclaim.engine.work.lines import Lines, Work
from reclaim.stores.catalog.format import CatalogFormat
from tests.collect.helpers.world import World
from tests.conftest import Backend

SOME = ContainerFiles((Part("containers/a.parquet", 1, "0"),), 1, 1, 1)
PART = Part("objects/a.parquet", 1, "0")


class Job(Exception):
    """A job would have been run."""


class NoSpark(SparkEngine):
    """Runs no job."""

    def run(self, step: str, rows: Rows, work: Work, *, shuffled: int = 0) -> Lines:
        raise Job(step)

    def spread(self, table: pa.Table) -> SparkRows:
        raise Job


@pytest.fixture
def engine() -> SparkEngine:
    return NoSpark(cast(SparkSession, None), tasks=2, lookup_limit=10, driver_row_limit=0)


@pytest.fixture
def format(embedded: Backend) -> CatalogFormat:
    return World.make(embedded).store().format


def _confirm(format: CatalogFormat, **given: Any) -> ConfirmRequest:
    place = Place("file:///nowhere", "")
    request = {
        "candidates": (),
        "revived": NO_CONTAINERS,
        "held": (),
        "closed": frozenset(),
        "done": (),
        "place": place,
        "work": place,
    }
    return ConfirmRequest(format, **{**request, **given})


def test_nothing_to_confirm_needs_no_job(engine: SparkEngine, format: CatalogFormat) -> None:
    found = pipelines.confirm(engine, _confirm(format))
    assert (found.parts, found.read) == ((), Read())


@pytest.mark.parametrize(
    "given",
    [{"revived": SOME}, {"held": ["held.parquet"]}, {"done": [PART]}, {"candidates": [PART]}],
)
def test_whatever_is_to_be_counted_is_read(
    engine: SparkEngine, format: CatalogFormat, given: dict[str, Any]
) -> None:
    """Also when there is no candidate left: an incomplete read must not look like none."""
    with pytest.raises(Job):
        pipelines.confirm(engine, _confirm(format, **given))


@pytest.mark.parametrize("containers", [NO_CONTAINERS, SOME])
def test_a_store_without_objects(
    engine: SparkEngine, format: CatalogFormat, containers: ContainerFiles
) -> None:
    place = Place("file:///nowhere", "")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    rules = CandidateRules(
        cutoffs={},
        closed=frozenset(),
        open=frozenset(),
        causes=[],
        reasons={},
        now=now,
        protected=(),
    )
    request = FindRequest(format, Objects(place.url, ()), containers, (), rules, place, place)
    if containers is SOME:
        with pytest.raises(Job):
            pipelines.find(engine, request)
        return
    found = pipelines.find(engine, request)
    assert (found.parts, found.objects, found.read) == ((), 0, Read())
