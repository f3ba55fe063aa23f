"""Runs that die at any of their steps: what is left opens, and another one finishes it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import pytest

from reclaim.model import SnapshotId
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.sweep.removal import DELETE, Removal
from reclaim.run_record import Phase
from tests.support.dying import again, each_death
from tests.terminus.dying import dies
from tests.terminus.world import MOVE, Frozen, Past, World, bury

pytestmark = pytest.mark.repeats(first=1)


@dataclass(frozen=True)
class Scene:
    """A plan, and what has happened since it was made: a label, and a layer on a dead one."""

    frozen: Frozen
    plan: WrittenPlan
    past: Past
    back: SnapshotId
    """Dead when it was planned, and labelled now."""

    @property
    def run(self) -> str:
        return self.plan.document.run

    @property
    def stays(self) -> set[SnapshotId]:
        return self.past.live | {self.back}

    @property
    def every(self) -> set[SnapshotId]:
        return self.past.live | self.past.dead | {self.back}


def prepare(world: World) -> tuple[WrittenPlan, Past, SnapshotId]:
    past = bury(world)
    back = world.write.layer(values=["back"])
    world.age()
    plan = world.plan()
    world.write.label("back", back)
    return plan, past, back


@pytest.fixture
def scene(world: World) -> Scene:
    plan, past, back = prepare(world)
    return Scene(Frozen(world), plan, past, back)


def end(world: World, run: str) -> tuple[object, ...]:
    """All that a run leaves that a later one, or a reader, could see."""
    store = world.store()
    [state] = [one.phase for one in store.runs() if one.id == run]
    lists = {path.name: path.read_text() for path in world.folder.glob(".reclaim/condemned/*")}
    return world.there(), world.aside(), state, lists


@pytest.mark.parametrize("removal", [DELETE, MOVE], ids=["deletes", "sets aside"])
def test_an_apply_that_dies_at_any_step(world: World, scene: Scene, removal: Removal) -> None:
    def work(world: World, **how: object) -> object:
        return world.apply(scene.plan, removal=removal, **how)  # type: ignore[arg-type]

    scene.frozen.thaw()
    work(world)
    after = end(world, scene.run)
    assert world.there() == scene.stays
    assert world.aside() == (set() if removal is DELETE else scene.past.dead)
    # Up to the sweep the steps are the same: one dies at every second, the other between.
    first = 2 if removal is MOVE else 1
    for fatal in each_death(scene.frozen, partial(dies, world, work), stride=2, first=first):
        world.check()
        assert scene.stays <= world.there(), fatal
        if removal is MOVE:
            assert world.there() | world.aside() == scene.every, fatal
        again(world, work)
        assert end(world, scene.run) == after, fatal
        world.check()


@pytest.fixture
def applied(world: World) -> Scene:
    """The same, and what went is in quarantine."""
    plan, past, back = prepare(world)
    world.apply(plan)
    return Scene(Frozen(world), plan, past, back)


def state(world: World, run: str) -> str:
    found = world.store().find_run(run)
    assert found is not None
    return found.phase


def test_an_undo_that_dies_at_any_step(world: World, applied: Scene) -> None:
    def work(world: World, **how: object) -> object:
        return world.undo(applied.run, **how)  # type: ignore[arg-type]

    for fatal in each_death(applied.frozen, partial(dies, world, work)):
        world.check()
        assert world.there() | world.aside() == applied.every, fatal
        # Half of it back is a store like any other: what came back is young.
        half = world.plan()
        assert half.document.candidates == 0, fatal
        if state(world, applied.run) != Phase.UNDONE:
            again(world, work)
        assert end(world, applied.run) == (applied.every, set(), Phase.UNDONE, {}), fatal
        world.check()


def test_a_purge_that_dies_at_any_step(world: World, applied: Scene) -> None:
    # A label was moved to a layer that is in quarantine, which comes back with what it needs.
    world.write.label("again", applied.past.old[1])
    applied = Scene(Frozen(world, "relabelled"), applied.plan, applied.past, applied.back)
    rescued = {applied.past.old[0], applied.past.old[1], applied.past.old_rollup}
    whole = applied.stays | rescued

    def work(world: World, **how: object) -> object:
        if how:
            world.clock.advance(MOVE.keep)
        return world.purge(MOVE.keep, **how)  # type: ignore[arg-type]

    for fatal in each_death(applied.frozen, partial(dies, world, work), stride=2):
        there = world.there()
        assert applied.stays <= there <= whole, fatal
        assert there | world.aside() >= whole, fatal
        for layer in world.contents().layers.values():
            assert {layer.parent, layer.rollup} - {None} <= there, fatal
        if state(world, applied.run) != Phase.PURGED:
            again(world, work)
        assert end(world, applied.run) == (whole, set(), Phase.PURGED, {}), fatal
        world.check()


def test_an_apply_that_died_can_be_undone(world: World, scene: Scene) -> None:
    def work(world: World, **how: object) -> object:
        return world.apply(scene.plan, **how)  # type: ignore[arg-type]

    undone = 0
    for fatal in each_death(scene.frozen, partial(dies, world, work), stride=3):
        world.clock.advance(timedelta(minutes=17))
        if world.store().find_run(scene.run) is None:
            continue
        world.undo(scene.run)
        undone += 1
        assert world.there() == scene.every, fatal
        assert end(world, scene.run) == (scene.every, set(), Phase.UNDONE, {}), fatal
        world.check()
    assert undone > 20
