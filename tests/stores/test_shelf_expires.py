"""A store whose own library expires its history: predicted, reviewed, and observed again."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from reclaim.engine.tasks.parts import read_part
from reclaim.errors import Partial, PlanRefused, Refused
from reclaim.model import SnapshotId
from reclaim.policy import Match, Policy, Rules
from reclaim.run.plan import plan_snapshots
from reclaim.run.plan.plan_snapshots import PlannedSnapshots
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.plan.snapshot_reasons import CUT_OFF
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine, Removal
from reclaim.run.undo.undo_run import undo_run
from reclaim.run_record import Phase
from reclaim.stores.abilities import Expiration, HistorySeen
from reclaim.testing import FakeClock
from tests.stores.shelf.held import HeldShelf
from tests.stores.shelf.library import Shelf
from tests.stores.shelf.world import World, older_than


@pytest.fixture
def world(folder: Path, clock: FakeClock) -> World:
    """Two old snapshots, a tag at the second and a branch from it, then two young ones."""
    world = World.make(folder, clock)
    world.commit("main", "a/1", "b/1")
    tagged = world.commit("main", "a/2")
    world.shelf.tag("v1", tagged)
    world.shelf.branch("side", tagged)
    world.commit("side", "c/1")
    world.commit("main", "a/1", days=30)
    world.commit("main", "a/3", days=3)
    world.age()
    return world


def decided(world: World, plan: WrittenPlan) -> PlannedSnapshots:
    return plan_snapshots.read(world.storage, plan.document.snapshots.part)


def reasons(world: World, plan: WrittenPlan) -> dict[str, list[str]]:
    rows = read_part(world.storage, plan.document.snapshots.part).to_pylist()
    return {row["id"]: row["reasons"] for row in rows}


def test_the_library_does_what_the_plan_says(world: World) -> None:
    line = world.shelf.history("main")
    plan = world.plan(older_than("10d"))
    going = decided(world, plan)
    assert set(going.dead) == {line[-2]}
    assert plan.document.library_edit is not None
    held = sum(holder.commits for holder in plan.document.held_by)
    assert plan.document.expired - held == 1
    before, needed = world.there(), world.needs(line[-2])
    done = world.apply(plan)
    assert (done.collected, done.unplanned, done.spared) == (1, 0, 0)
    assert world.live().isdisjoint(going.dead)
    assert world.shelf.history("main") == [*line[:3], line[-1]]
    assert world.shelf.history("v1") == [line[-3], line[-1]]
    kept = {one for snapshot in world.live() for one in world.needs(snapshot)}
    assert before - world.there() == needed.keys() - kept
    world.check_whole()
    assert world.plan(older_than("10d")).document.candidates == 0


@pytest.mark.parametrize("flags", [(), ("tags",), ("tags", "branches")])
def test_refs_go_with_their_snapshots(world: World, flags: tuple[str, ...]) -> None:
    asked = {f"delete_expired_{name}": True for name in flags}
    plan = world.plan(older_than("10d"), **asked)
    index = world.shelf.read()
    predicted = set(plan.document.deleted_refs)
    world.apply(plan)
    after = world.shelf.read()
    gone = (index.tags.keys() - after.tags.keys()) | (index.branches.keys() - after.branches.keys())
    assert (
        gone
        == predicted
        == {"tags": {"v1"}, "branches": {"v1", "side"}}.get(flags[-1] if flags else "", set())
    )
    world.check_whole()


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        (Policy(Rules(keep_last=3)), "keep_last 3"),
        (Policy(Rules(keep_merge_bases=True, keep_daily=2)), "keep_daily 2, keep_merge_bases"),
        (Policy(Rules(), ((Match("side"), older_than("1d").default),)), "rules by ref"),
    ],
)
def test_a_rule_that_the_library_cannot_express(world: World, policy: Policy, named: str) -> None:
    with pytest.raises(Refused, match=f"does not support {named}") as refused:
        world.plan(policy)
    assert "older_than" in str(refused.value.hint)


def test_a_plan_says_what_undo_cannot(world: World) -> None:
    said = " ".join(world.plan(older_than("10d")).document.warnings)
    assert "own library, which cannot take that back" in said
    assert "own library" not in " ".join(world.plan().document.warnings)


def test_a_lease_outlives_what_the_library_does(world: World) -> None:
    old = world.shelf.history("main")[-2]
    plan = world.plan(older_than("10d"))
    world.store().take_lease(old, holder="reader", length=timedelta(hours=2))
    done = world.apply(plan)
    assert (done.collected, done.spared) == (0, 1)
    world.shelf.files(old)


def test_less_than_was_predicted_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = world.plan(older_than("10d"))
    monkeypatch.setattr(HeldShelf, "expire_by_library", lambda *_: True)
    before = world.there()
    done = world.apply(plan)
    assert (done.outcome.only("deleted")[0], done.spared) == (0, 1)
    assert world.there() == before
    monkeypatch.undo()
    assert world.apply(world.plan(older_than("10d"))).collected == 1


def more(monkeypatch: pytest.MonkeyPatch, world: World) -> set[SnapshotId]:
    """Let the library go a day further than it is asked to; returns what goes too."""
    asked = HeldShelf.expire_by_library

    def eager(held: HeldShelf, expiration: Expiration, seen: HistorySeen) -> bool:
        return asked(held, Expiration(older_than("4d"), expiration.now), seen)

    monkeypatch.setattr(HeldShelf, "expire_by_library", eager)
    return {SnapshotId(world.shelf.history("main")[1])}


def test_more_than_was_predicted_waits_for_a_plan(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = world.plan(older_than("10d"))
    also = more(monkeypatch, world)
    before = world.there()
    done = world.apply(plan)
    assert (done.collected, done.unplanned) == (1, 1)
    assert world.live().isdisjoint(also)
    for snapshot in also:
        # Nobody has reviewed it: it is whole, and can be named again.
        assert world.needs(snapshot).keys() <= world.there()
        world.shelf.tag("rescued", snapshot)
        world.shelf.delete_tag("rescued")
    assert world.there() < before
    again = world.plan()
    assert set(decided(world, again).dead) == also
    assert world.apply(again).collected == 1
    world.check_whole()


def test_what_it_took_too_much_keeps_what_it_needs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that only moves a branch: what it took out still hangs on what the plan names."""
    line = world.shelf.history("main")
    plan = world.plan(older_than("10d"), delete_expired_tags=True, delete_expired_branches=True)
    going = set(decided(world, plan).dead)

    def careless(shelf: Shelf, *_: object, **__: object) -> None:
        index = shelf.read()
        index.tags.clear()
        index.branches = {"main": line[-1]}
        shelf.write(index)

    monkeypatch.setattr(Shelf, "expire", careless)
    done = world.apply(plan)
    assert going
    assert (done.collected, done.unplanned) == (len(going - set(line)), 2)
    for snapshot in line:
        assert world.shelf.files(snapshot) or snapshot == line[-1]
    world.shelf.branch("rescued", line[0])
    world.check_whole()


def test_a_ref_that_the_plan_leaves_is_not_deleted(world: World) -> None:
    plan = world.plan(older_than("10d"), delete_expired_tags=True)
    world.shelf.tag("kept", world.shelf.history("v1")[-1])
    world.shelf.tag("late", world.shelf.history("v1")[0])
    before = world.shelf.read()
    with pytest.raises(PlanRefused, match="late"):
        world.apply(plan)
    assert world.shelf.read() == before


def test_a_history_that_changed_is_planned_again(world: World) -> None:
    plan = world.plan(older_than("10d"))
    world.shelf.delete_tag("v1")
    world.shelf.delete_branch("side")
    before, history = world.there(), world.shelf.history("main")
    with pytest.raises(PlanRefused, match="would remove unplanned"):
        world.apply(plan)
    assert (world.there(), world.shelf.history("main")) == (before, history)
    [run] = world.store().runs()
    assert (run.phase, run.edit.by_library) == (Phase.STOPPED, False)
    assert world.apply(world.plan(older_than("10d"))).collected > 1


@pytest.mark.parametrize("removal", [DELETE, MoveToQuarantine()], ids=["deletes", "moves"])
@pytest.mark.parametrize("edited", [True, False])
def test_a_library_that_fails_halfway(
    world: World, monkeypatch: pytest.MonkeyPatch, edited: bool, removal: Removal
) -> None:
    plan = world.plan(older_than("10d"))
    asked = Shelf.expire

    def failing(shelf: Shelf, *args: object, **options: object) -> None:
        if edited:
            asked(shelf, *args, **options)  # type: ignore[arg-type]
        raise OSError("the network is gone")

    monkeypatch.setattr(Shelf, "expire", failing)
    before = world.there()
    with pytest.raises(Partial, match="the network is gone"):
        world.apply(plan, removal)
    assert world.there() == before
    store = world.store()
    [run] = store.runs()
    state = Phase.STARTED if removal.name else Phase.STOPPED
    assert (run.phase, run.edit.by_library) == (state, True)
    if removal is DELETE:
        with pytest.raises(Refused, match="cannot be reverted"):
            undo_run(store, world.engine(), run.id, opener=world.opener)
    monkeypatch.undo()
    assert world.apply(plan, removal).collected == 1
    world.check_whole()


def test_what_an_undo_brings_back_is_held_for_the_window(world: World) -> None:
    before = world.there()
    plan = world.plan(older_than("10d"))
    (gone,) = decided(world, plan).dead
    run = world.apply(plan, MoveToQuarantine(timedelta(days=7))).run
    assert gone not in world.shelf.read().snapshots
    history = world.shelf.history("main")
    done = world.undo(run)
    assert done.snapshots == 1
    assert "leases hold what came back" in done.left[0]
    assert world.there() == before
    assert world.shelf.history("main") == history
    # Until the end of the window nobody takes it, though nothing refers to it.
    world.clock.advance(days=6)
    assert world.plan().document.dead == 0
    world.shelf.tag("again", gone)
    world.clock.advance(days=2)
    world.apply(world.plan())
    assert world.shelf.files(gone)


def test_what_nobody_named_goes_once_the_window_is_over(world: World) -> None:
    plan = world.plan(older_than("10d"))
    (gone,) = decided(world, plan).dead
    world.undo(world.apply(plan, MoveToQuarantine(timedelta(days=7))).run)
    world.clock.advance(days=8)
    assert set(decided(world, world.plan()).dead) == {gone}


def test_purge_ends_it(world: World) -> None:
    plan = world.plan(older_than("10d"))
    (gone,) = decided(world, plan).dead
    run = world.apply(plan, MoveToQuarantine()).run
    purged = world.purge(timedelta(0))
    assert purged is not None
    assert (purged.runs, purged.collected) == ([run], 1)
    assert gone not in str(world.shelf.read())
    world.check_whole()


def test_clocks_that_run_backwards(folder: Path, clock: FakeClock) -> None:
    """Written on several machines, one of which was a month behind."""
    world = World.make(folder, clock)
    now = world.clock.now()
    young = world.shelf.commit("main", {"a/1": b"1"}, written_at=now)
    behind = world.shelf.commit("main", {"a/2": b"2"}, written_at=now - timedelta(days=30))
    tip = world.shelf.commit("main", {"a/3": b"3"}, written_at=now)
    world.age()
    plan = world.plan(older_than("10d"))
    # The library hangs the tip on the origin, so that what is below the old one is cut off. The
    # rules keep it: it stays until a plan says that nothing reaches it.
    assert set(decided(world, plan).dead) == {behind}
    assert any(
        "removes 1 snapshots from history although the rules keep them" in one
        for one in plan.document.warnings
    )
    assert reasons(world, plan)[young][-1] == CUT_OFF
    done = world.apply(plan)
    assert (done.collected, done.unplanned) == (1, 0)
    assert tip in world.live()
    assert young not in world.live()
    assert world.shelf.files(young)
    world.check_whole()
    assert set(decided(world, world.plan()).dead) == {young}


def test_a_tag_above_what_the_rules_keep(folder: Path, clock: FakeClock) -> None:
    """The library deletes a tag at what is old, and what is below it is young."""
    world = World.make(folder, clock)
    now = world.clock.now()
    world.shelf.branch("side", world.shelf.read().branches["main"])
    young = world.shelf.commit("side", {"a/1": b"1"}, written_at=now)
    behind = world.shelf.commit("side", {"a/2": b"2"}, written_at=now - timedelta(days=30))
    world.shelf.tag("v1", behind)
    world.shelf.delete_branch("side")
    world.age()
    plan = world.plan(older_than("10d"), delete_expired_tags=True)
    assert set(decided(world, plan).dead) == {behind}
    assert world.apply(plan).unplanned == 0
    assert world.shelf.read().tags == {}
    assert world.shelf.files(young)
