"""Deletes that fail, and what the journal says of each object."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reclaim.errors import Partial, StorageDenied, StorageUnavailable
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run_record import Phase
from reclaim.testing.faults import Denied, FaultyStorage, Nth
from tests.collect.helpers.refusing import finishes
from tests.collect.helpers.world import World, bury


def test_a_storage_that_says_slow_down(world: World) -> None:
    """It is asked again, later and less; nothing is reported as failed."""
    bury(world)
    plan = world.plan()
    fault = Nth(2, calls=("delete_page",), times=6)
    before = world.there()
    applied = world.apply(plan, storage=FaultyStorage(world.storage, fault))
    assert fault.asked > 8
    assert applied.failed == 0
    world.check_swept(plan, before)
    world.quiet()


def test_a_storage_that_does_not_answer_any_delete(world: World) -> None:
    bury(world)
    plan = world.plan()
    fault = Nth(1, calls=("delete_page", "delete"), times=10_000, below="repos/")
    before = world.there()
    with pytest.raises((Partial, StorageUnavailable)) as caught:
        world.apply(plan, storage=FaultyStorage(world.storage, fault))
    assert caught.value.exit_code in (5, 7)
    assert world.there() == before
    world.check()
    finishes(world, plan)
    world.quiet()


@pytest.mark.parametrize("which", ["/branches/", "/_reclaim/meta/"])
def test_a_key_that_is_denied(world: World, which: str) -> None:
    """The others go; the one is journalled as failed, and the next apply takes it."""
    bury(world)
    plan = world.plan()
    denied = min(one for one in world.candidates(plan) if which in one)
    fault = Denied([denied], StorageDenied, calls=("delete", "delete_page"))
    before = world.there()
    with pytest.raises(Partial) as caught:
        world.apply(plan, storage=FaultyStorage(world.storage, fault))
    assert caught.value.exit_code == 7
    assert caught.value.details["failed"] == 1
    assert before - world.there() == set(world.candidates(plan)) - {denied}
    assert world.repo.runs()[0].phase == Phase.PARTIAL
    assert outcomes(world, plan)[denied] == "failed"
    world.check()
    fault.lift()
    again = world.apply(plan)
    assert again.summary()["objects"] == plan.document.candidates
    assert again.summary()["failed"] == 0
    world.check_swept(plan, before)
    assert world.repo.runs()[0].phase == Phase.DONE
    world.quiet()


def outcomes(world: World, plan: WrittenPlan) -> dict[str, str]:
    """What the journals of a plan's applies say."""
    found: dict[str, str] = {}
    for stored in world.storage.list(plan.place.at("apply").rstrip("/")):
        if "/journal/" in stored.address:
            table = pq.ParquetFile(pa.BufferReader(world.storage.get(stored.address))).read()
            found |= {row["address"]: row["outcome"] for row in table.to_pylist()}
    return found


def test_the_journal_has_every_object(world: World) -> None:
    bury(world)
    plan = world.plan()
    world.apply(plan)
    assert outcomes(world, plan) == dict.fromkeys(world.candidates(plan), "deleted")


def test_an_apply_that_is_done_says_so_again(local: World) -> None:
    bury(local)
    plan = local.plan()
    first = local.apply(plan)
    assert first.summary()["objects"] == plan.document.candidates
    again = local.apply(plan)
    assert again.summary()["objects"] == plan.document.candidates
    assert again.dropped == 0
