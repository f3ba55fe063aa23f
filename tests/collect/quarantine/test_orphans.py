"""What is left in quarantine and is of no run that could bring it back or purge it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from reclaim.run.doctor.doctor import examine
from reclaim.run.gc import Collected, collect
from reclaim.run.plan.planning import PlanOptions
from reclaim.run.purge.purge import purge
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.stores.catalog import CatalogStore
from tests.catalog import raw
from tests.collect.helpers.world import NAME, World, bury, opening

MOVE = MoveToQuarantine(timedelta(days=90))
UNKNOWN = "0" * 32


def leave(world: World, run: str) -> str:
    """Something that a run left in its quarantine."""
    address = f"repos/{world.repo.uid}/_reclaim/quarantine/{run}/branches/old/p/left"
    world.storage.put(address, b"left behind")
    return address


def deleted(world: World) -> CatalogStore:
    return CatalogStore(world.opened().workspace(world.repo.uid))


def delete(world: World) -> None:
    with world.opened() as catalog:
        catalog.delete_repository(NAME)
    world.clock.advance(days=3)


def collected(world: World) -> Collected:
    options = PlanOptions(margins=world.margins)
    return collect(deleted(world), world.engine(), options, opener=opening(world.storage))


def gc(world: World) -> Mapping[str, Any] | None:
    applied = collected(world).applied
    return None if applied is None else applied.summary()


def test_orphans_go_with_a_deleted_repository(local: World) -> None:
    bury(local)
    run = local.apply(local.plan(), removal=MOVE).run
    left = {leave(local, UNKNOWN)}
    local.undo(run)
    left.add(leave(local, run))
    delete(local)
    assert gc(local) is not None
    assert left.isdisjoint(raw.objects(local.repo))


def test_orphans_go_although_nothing_else_is_left(local: World) -> None:
    delete(local)
    gc(local)
    left = leave(local, UNKNOWN)
    local.clock.advance(days=3)
    told = gc(local)
    assert told is not None
    assert told["objects"] == 1
    assert left not in raw.objects(local.repo)
    assert gc(local) is None


def test_a_window_of_a_deleted_repository_stays_open(local: World) -> None:
    """What is in it waits for its purge, with the record that tells of it."""
    bury(local)
    plan = local.plan()
    local.apply(plan, removal=MOVE)
    delete(local)
    kept = local.aside()
    made = collected(local).plan
    assert made is not None
    staying = {group.reason: group.objects for group in made.document.staying}
    assert staying["Reclaim's own, kept"] > len(kept)
    assert local.aside() == kept
    assert local.storage.head(plan.place.at("plan.json")).size
    assert gc(local) is None
    local.clock.advance(days=91)
    assert purge(deleted(local), local.engine(), opener=opening(local.storage)) is not None
    assert not local.aside()


@pytest.mark.parametrize("end", ["undone", "purged", "unknown"])
def test_doctor_names_them_in_a_repository_that_lives(local: World, end: str) -> None:
    bury(local)
    run = local.apply(local.plan(), removal=MOVE).run
    assert not named_by_doctor(local)
    if end == "undone":
        local.undo(run)
    elif end == "purged":
        local.purge(timedelta(0))
    else:
        run = UNKNOWN
    leave(local, run)
    [sentence] = named_by_doctor(local)
    assert f"quarantine of run {run}, which is {end}" in sentence
    assert "1 objects (11 bytes)" in sentence
    local.age()
    local.apply(local.plan(allowed_fraction=1.0))
    assert named_by_doctor(local) == [sentence]


def named_by_doctor(world: World) -> list[str]:
    findings = examine(world.opened(), world.clock)
    return [one.sentence for one in findings if one.check == "quarantine"]
