"""A layer that is left out of an apply can be loaded afterwards: what it needs stays as well."""

from __future__ import annotations

import pytest

from reclaim.engine.tasks.parts import read_part
from reclaim.model import SnapshotId
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.sweep.removal import DELETE, Removal
from tests.terminus.test_promises import EDGES, build, plan, unlabel
from tests.terminus.world import MOVE, World

REMOVALS = pytest.mark.parametrize("removal", [DELETE, MOVE], ids=["deleted", "moved"])


def addresses(world: World, made: WrittenPlan, layer: SnapshotId) -> list[str]:
    tables = [read_part(world.storage, file.part, ["address"]) for file in made.document.files]
    every = [address for table in tables for address in table.column("address").to_pylist()]
    return [address for address in every if layer in address]


@REMOVALS
@pytest.mark.parametrize("edge", EDGES)
def test_what_it_needs_stays(world: World, edge: str, removal: Removal) -> None:
    child, needed = build(world, edge)
    unlabel(world)
    made = plan(world)
    left_out = addresses(world, made, child)
    done = world.apply(made, removal=removal, exclude=left_out)
    assert {child, needed} <= world.there()
    assert done.left_out.objects == len(left_out)
    # Nothing was said against them: somebody may label them again.
    states = world.store()._sidecar.lists.states()
    assert states.keys().isdisjoint({child, needed})
    world.write.label("back", child)
    world.check()


@REMOVALS
def test_the_next_plan_takes_both(world: World, removal: Removal) -> None:
    child, needed = build(world)
    unlabel(world)
    made = plan(world)
    world.apply(made, removal=removal, exclude=addresses(world, made, child))
    world.apply(plan(world), removal=removal)
    assert world.there().isdisjoint({child, needed})
    world.check()


def test_what_others_need_may_stay_alone(world: World) -> None:
    child, needed = build(world)
    unlabel(world)
    made = plan(world)
    world.apply(made, exclude=addresses(world, made, needed))
    assert needed in world.there()
    assert child not in world.there()
    world.check()
