"""No job is run where there is nothing to do, and one is wherever something is to be counted."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from reclaim.engine.answers import NO_CONTAINERS, ContainerFiles, Objects, Read
from reclaim.engine.requests import ConfirmRequest, FindRequest
from reclaim.engine.spark.finding import Finder
from reclaim.engine.spark.frames import Frames
from reclaim.engine.tasks.judging import CandidateRules
from reclaim.engine.tasks.keys import keys_of
from reclaim.engine.tasks.parts import Part, Place
from reclaim.stores.catalog.format import CatalogFormat
from tests.collect.world import World
from tests.conftest import Backend

SOME = ContainerFiles((Part("containers/a.parquet", 1, "0"),), 1, 1, 1)
PART = Part("objects/a.parquet", 1, "0")


class Job(Exception):
    """A job would have been run."""


class NoSpark:
    """Frames without a session."""

    tasks = 2

    def __getattr__(self, name: str) -> Any:
        raise Job(name)


@pytest.fixture
def finder() -> Finder:
    frames = cast(Frames, NoSpark())
    return Finder(frames, lookup_limit=10, driver_row_limit=0, keys_of=keys_of)


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


def test_nothing_to_confirm_needs_no_job(finder: Finder, format: CatalogFormat) -> None:
    found = finder.confirm(_confirm(format))
    assert (found.parts, found.read) == ((), Read())


@pytest.mark.parametrize(
    "given",
    [{"revived": SOME}, {"held": ["held.parquet"]}, {"done": [PART]}, {"candidates": [PART]}],
)
def test_whatever_is_to_be_counted_is_read(
    finder: Finder, format: CatalogFormat, given: dict[str, Any]
) -> None:
    """Also when there is no candidate left: an incomplete read must not look like none."""
    with pytest.raises(Job):
        finder.confirm(_confirm(format, **given))


@pytest.mark.parametrize("containers", [NO_CONTAINERS, SOME])
def test_a_store_without_objects(
    finder: Finder, format: CatalogFormat, containers: ContainerFiles
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
            finder.find(request)
        return
    found = finder.find(request)
    assert (found.parts, found.objects, found.read) == ((), 0, Read())
