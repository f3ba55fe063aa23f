"""The whole way of a run on a store: plan, apply, undo, purge."""

from __future__ import annotations

import os
from datetime import timedelta

import pytest

from reclaim.errors import Conflict, Partial, PlanRefused, Refused
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine
from reclaim.run_record import Phase
from reclaim.stores.terminus.garbage import Garbage
from tests.terminus.world import World, bury

pytestmark = pytest.mark.fast


def test_what_is_dead_is_set_aside_and_comes_back(world: World) -> None:
    past = bury(world)
    files = snapshot_of(world)
    plan = world.plan()
    assert snapshot_of(world) == files
    assert plan.document.dead == len(past.dead)
    done = world.apply(plan)
    assert done.until == world.clock.now() + timedelta(days=7)
    assert world.there() == past.live
    assert world.aside() == past.dead
    world.check()
    [run] = world.store().runs()
    assert run.quarantine is not None
    assert (run.phase, run.quarantine.removal) == (Phase.DONE, "moved")

    undone = world.undo(run.id)
    assert undone.snapshots == len(past.dead) - 1
    [left] = undone.left
    assert past.torn in left
    assert snapshot_of(world) == files
    assert world.aside() == set()
    with pytest.raises(Conflict, match="undone already"):
        world.undo(run.id)
    with pytest.raises(PlanRefused, match="its run was undone"):
        world.apply(plan)


def snapshot_of(world: World) -> dict[str, bytes]:
    """Every file of the store but ours, with its bytes."""
    return {
        str(path.relative_to(world.folder)): path.read_bytes()
        for path in world.folder.rglob("*")
        if path.is_file() and ".reclaim" not in path.parts
    }


def test_a_plan_changes_nothing_but_its_own_folder_and_notes_its_digest(world: World) -> None:
    bury(world)
    plan = world.plan()
    ours = {path.relative_to(world.folder).parts[:3] for path in world.folder.glob(".reclaim/**/*")}
    run = plan.document.run
    # Its digest lies elsewhere: who can write the plan's folder alone cannot change it.
    expected = {(".reclaim", "runs", run), (".reclaim", "plans", run)}
    assert {parts for parts in ours if len(parts) == 3} == expected
    assert "protected by the margin alone" in plan.document.promise


def test_the_report_says_what_the_garbage_was(world: World) -> None:
    past = bury(world)
    going = world.plan().document.going
    layers = {group.reason: group.objects for group in going if group.kind == "layer"}
    assert sum(layers.values()) == len(past.dead)
    assert layers == {Garbage.SQUASHED_GRAPH: 4, Garbage.UNFINISHED: 1}
    [rollup] = [group for group in going if group.kind == "rollup"]
    assert (rollup.objects, rollup.reason) == (1, Garbage.SQUASHED_GRAPH)


def test_what_is_younger_than_a_day_stays(world: World) -> None:
    past = bury(world)
    write = world.write
    child = write.layer(past.old[-1], values=["child"])
    world.clock.advance(hours=23)
    made = world.plan()
    world.apply(made)
    # A young layer keeps what it stands on.
    assert world.there() == past.live | {*past.old, past.old_rollup, child}
    world.clock.advance(hours=2)
    world.apply(world.plan())
    assert world.there() == past.live


@pytest.mark.parametrize("archives", [True, False])
def test_owner_and_mode_are_kept(world: World, archives: bool) -> None:
    past = bury(world)
    write = world.write
    write.archives = archives
    dead = write.layer(values=["mine"])
    world.age()
    path = world.folder / write.path(dead)
    inside = path if archives else path / "value_dictionary_blocks.tfc"
    path.chmod(0o640 if archives else 0o750)
    inside.chmod(0o604)
    before = [path.stat(), inside.stat()]
    run = world.apply(world.plan()).run
    away = world.folder / ".reclaim/quarantine" / run / write.path(dead)
    beside = away if archives else away / inside.name
    # The very same files, and so their owners and modes.
    for one, was in zip((away, beside), before, strict=True):
        now = one.stat()
        assert (now.st_ino, now.st_uid, now.st_gid, now.st_mode) == (
            *(was.st_ino, was.st_uid, was.st_gid, was.st_mode),
        )
    world.undo(run)
    assert (path.stat().st_ino, path.stat().st_mode) == (before[0].st_ino, before[0].st_mode)
    assert inside.stat().st_mode == before[1].st_mode
    assert world.there() == past.live | past.dead | {dead}


def test_what_came_back_is_safe_for_a_day_and_goes_then(world: World) -> None:
    past = bury(world)
    run = world.apply(world.plan()).run
    world.undo(run)
    world.clock.advance(hours=23)
    again = world.plan()
    assert again.document.candidates == 0
    world.apply(again)
    assert world.there() == past.live | past.dead
    world.quiet()
    assert world.there() == past.live


def test_a_purge_ends_the_window(world: World) -> None:
    past = bury(world)
    run = world.apply(world.plan(), removal=MoveToQuarantine(timedelta(days=3))).run
    assert world.purge() is None
    world.clock.advance(days=3)
    assert world.aside() == past.dead
    purged = world.purge()
    assert purged is not None
    assert purged.runs == [run]
    assert purged.collected == len(past.dead)
    assert purged.summary()["rescued"] == 0
    assert world.aside() == set()
    assert world.there() == past.live
    states = {one.id: one.phase for one in world.store().runs()}
    assert states == {run: Phase.PURGED, purged.run: Phase.DONE}
    with pytest.raises(Refused, match="purged"):
        world.undo(run)
    assert world.purge() is None
    world.quiet()


def test_deleting_at_once(world: World) -> None:
    past = bury(world)
    done = world.apply(world.plan(), removal=DELETE)
    assert done.collected == len(past.dead)
    assert world.there() == past.live
    assert world.aside() == set()
    assert list(world.folder.glob(".reclaim/condemned/*")) == []
    with pytest.raises(Refused, match="put nothing in quarantine"):
        world.undo(done.run)


def test_nothing_goes_after_one_that_could_not(world: World) -> None:
    past = bury(world)
    plan = world.plan()
    # Children come first, so that the parents stay when the child cannot go.
    stuck = world.folder / world.write.path(past.old[-1])
    (stuck / "added").write_bytes(b"x")
    old = world.clock.now() - timedelta(days=2)
    for path in (stuck, *stuck.iterdir()):
        os.utime(path, (old.timestamp(), old.timestamp()))
    with pytest.raises(Partial) as error:
        world.apply(plan)
    assert error.value.details["failed"] == 1
    world.check()
    assert set(past.old) <= world.there()
    (stuck / "added").unlink()
    os.utime(stuck, (old.timestamp(), old.timestamp()))
    world.apply(plan)
    assert world.there() == past.live
    assert world.aside() == past.dead


def test_runs_are_found_however_old_they_are(world: World) -> None:
    past = bury(world)
    run = world.apply(world.plan(), removal=MoveToQuarantine(timedelta(days=400))).run
    world.clock.advance(days=100)
    second = world.write.layer(values=["later"])
    world.age()
    later = world.plan()
    # Its record tells what to bring back, and stays as long as that can be.
    assert "a record of an old run" not in {group.reason for group in later.document.going}
    world.apply(later)
    assert {one.id for one in world.store().runs()} == {run, later.document.run}
    assert world.undo(later.document.run).left == ()
    assert world.undo(run).snapshots == len(past.dead) - 1
    assert world.there() == past.live | past.dead | {second}


def test_two_plans_of_the_same_layers(world: World) -> None:
    past = bury(world)
    first, second = world.plan(), world.plan()
    run = world.apply(first).run
    assert world.apply(second).collected == 0
    world.undo(run)
    assert world.there() == past.live | past.dead
    with world.store().lease(past.old[0]):
        pass
