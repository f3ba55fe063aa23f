"""What the library of a store took out of history for a run: promised, compared, and held."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from reclaim.errors import Partial, PlanRefused, Refused
from reclaim.model import SnapshotId
from reclaim.run.apply.apply_plan import CollectionApplying, apply_plan
from reclaim.run.plan import plan_snapshots
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine, Removal
from reclaim.run_record import Phase
from reclaim.storage import ObjectStorage, Storage
from reclaim.stores.abilities import Expiration, HistorySeen
from reclaim.stores.sidecar.held import HeldSidecar
from reclaim.testing import ClockedStorage, FakeClock
from reclaim.urls import normalize
from tests.stores.shelf.held import HeldShelf
from tests.stores.shelf.library import ATTRIBUTES
from tests.stores.shelf.world import NAME, World, older_than
from tests.support.dying import Died

WEEK = MoveToQuarantine(timedelta(days=7))


class OpeningWorld(World):
    """With each storage opened at its own URL: the folder of a plan is one too."""

    def opener(self, url: str) -> Storage:
        if url == self.storage.url:
            return self.storage
        return ClockedStorage(ObjectStorage.open(normalize(url)), self.clock)


@pytest.fixture
def world(folder: Path, clock: FakeClock) -> World:
    """Five old snapshots and a young one, on one branch."""
    world = OpeningWorld.make(folder, clock)
    for number in range(5):
        world.commit("main", f"a/{number}")
    world.commit("main", "b/1", days=30)
    world.age()
    return world


def going(world: World, plan: WrittenPlan) -> set[SnapshotId]:
    return set(plan_snapshots.read(world.storage, plan.document.snapshots.part).dead)


def whole(world: World, snapshots: set[SnapshotId]) -> None:
    for snapshot in snapshots:
        assert world.shelf.files(snapshot)


def around(monkeypatch: pytest.MonkeyPatch, before: Callable[[], object], after: object) -> None:
    """Do something right before the handle asks the library, and something after."""
    asked = HeldShelf.expire_by_library

    def expire(held: HeldShelf, expiration: Expiration, seen: HistorySeen) -> bool:
        before()
        done = asked(held, expiration, seen)
        if callable(after):
            after()
        return done

    monkeypatch.setattr(HeldShelf, "expire_by_library", expire)


def killed(world: World, plan: WrittenPlan, removal: Removal = WEEK) -> str:
    """An apply that is killed right after the library has edited; its run."""

    def die() -> None:
        raise Died

    with pytest.MonkeyPatch.context() as patch:
        around(patch, lambda: None, die)
        patch.setattr(CollectionApplying, "_stop", lambda *_: None)
        with pytest.raises(Died):
            world.apply(plan, removal)
    world.clock.advance(minutes=30)
    [run] = world.store().runs()
    assert (run.phase, run.edit.by_library) == (Phase.STARTED, True)
    return run.id


@pytest.mark.parametrize("rules", [True, False])
def test_what_a_killed_run_released_is_left_by_others(world: World, rules: bool) -> None:
    plan = world.plan(older_than("10d"))
    released = going(world, plan)
    run = killed(world, plan)
    assert world.live().isdisjoint(released)
    assert world.apply(world.plan(older_than("10d") if rules else None)).collected == 0
    whole(world, released)
    # It can still be finished, in the way that it was begun, and undone.
    done = world.apply(plan, WEEK)
    assert (done.collected, done.unplanned) == (len(released), 0)
    assert world.undo(run).snapshots == len(released)
    whole(world, released)


def test_what_a_failed_library_released_is_left_by_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = world.plan(older_than("10d"))

    def fail() -> None:
        raise OSError("the network is gone")

    around(monkeypatch, lambda: None, fail)
    with pytest.raises(Partial, match="the network is gone"):
        world.apply(plan, WEEK)
    monkeypatch.undo()
    assert world.live().isdisjoint(going(world, plan))
    assert not going(world, world.plan())
    assert world.undo(plan.document.run).left


def test_a_run_that_was_to_delete_promises_nothing(world: World) -> None:
    plan = world.plan(older_than("10d"))
    killed(world, plan, DELETE)
    assert world.apply(world.plan()).collected == len(going(world, plan))


def leased_apply(world: World, removal: Removal) -> tuple[str, SnapshotId]:
    """A run from which a reader's lease of two hours spared a snapshot that the library released;
    the lease is over."""
    plan = world.plan(older_than("10d"))
    spared = min(going(world, plan))
    world.store().take_lease(spared, holder="a reader", length=timedelta(hours=2))
    run = world.apply(plan, removal).run
    assert spared not in world.live()
    assert spared not in world.store().taken(run)
    world.clock.advance(hours=3)
    return run, spared


def test_what_a_lease_spared_is_promised_for_the_window(world: World) -> None:
    run, spared = leased_apply(world, WEEK)
    assert world.apply(world.plan()).collected == 0
    world.clock.advance(days=6)
    assert world.apply(world.plan(older_than("10d"))).collected == 0
    assert any(spared in sentence for sentence in world.undo(run).left)
    whole(world, {spared})


def test_what_a_lease_spared_goes_when_the_window_is_over(world: World) -> None:
    _, spared = leased_apply(world, WEEK)
    world.clock.advance(days=8)
    assert world.purge() is not None
    assert going(world, world.plan()) == {spared}


def test_what_a_lease_spared_from_a_run_that_deletes_is_promised_by_nobody(world: World) -> None:
    _, spared = leased_apply(world, DELETE)
    assert going(world, world.plan()) == {spared}


def test_an_undo_of_a_killed_run_holds_what_was_released(world: World) -> None:
    plan = world.plan(older_than("10d"))
    released = going(world, plan)
    run = killed(world, plan)
    said = " ".join(world.undo(run).left)
    assert "leases hold" in said
    assert [one.phase for one in world.store().runs()] == [Phase.UNDONE]
    world.clock.advance(days=6)
    assert not going(world, world.plan())
    whole(world, released)
    world.clock.advance(days=2)
    assert going(world, world.plan()) == released


@pytest.mark.parametrize("finished", [True, False])
def test_it_is_held_for_all_of_a_long_window(world: World, finished: bool) -> None:
    plan = world.plan(older_than("10d"))
    quarter = MoveToQuarantine(timedelta(days=90))
    run = world.apply(plan, quarter).run if finished else killed(world, plan, quarter)
    world.undo(run)
    world.clock.advance(days=89)
    assert not going(world, world.plan())
    whole(world, going(world, plan))
    world.clock.advance(days=2)
    assert going(world, world.plan()) == going(world, plan)


def test_an_undo_that_dies_holds_it_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = world.plan(older_than("10d"))
    released = going(world, plan)
    run = killed(world, plan)

    def die(*_: object, **__: object) -> None:
        raise Died

    monkeypatch.setattr(HeldShelf, "hold_released", die)
    with pytest.raises(Died):
        world.undo(run)
    monkeypatch.undo()
    world.clock.advance(minutes=30)
    assert not going(world, world.plan())
    assert world.undo(run).left
    assert not going(world, world.plan())
    whole(world, released)


def test_purge_ends_what_a_killed_run_promised(world: World) -> None:
    plan = world.plan(older_than("10d"))
    killed(world, plan)
    assert world.purge() is None
    world.clock.advance(days=8)
    assert world.purge() is not None
    assert world.apply(world.plan()).collected == len(going(world, plan))


def test_a_purge_that_stops_halfway_ends_what_its_run_promised(world: World) -> None:
    """Of the containers that it has deleted nobody asks what they need."""
    plan = world.plan(older_than("10d"))
    run = world.apply(plan, WEEK).run
    folder = world.store().format.quarantine_path(run).rstrip("/")
    files = [stored.address for stored in world.storage.list(folder)]
    changed = next(address for address in files if f"/{ATTRIBUTES}/" in address)
    world.storage.put(changed, b"changed by a scanner")
    with pytest.raises(Partial, match="is not the object moved to quarantine"):
        world.purge(timedelta(0))
    assert [stored.address for stored in world.storage.list(folder)] == [changed]
    world.apply(world.plan())
    world.check_whole()
    with pytest.raises(Refused, match="can no longer be undone"):
        world.undo(run)
    world.storage.delete(changed)
    assert world.purge() is not None


def test_a_list_that_is_gone_stops_other_runs(world: World) -> None:
    plan = world.plan(older_than("10d"))
    run = killed(world, plan)
    [record] = world.store().runs()
    world.storage.delete(record.edit.released_file)
    with pytest.raises(Refused, match=f"for run {run} cannot be read"):
        world.plan()
    world.clock.advance(days=8)
    assert world.purge() is not None
    world.plan()


@pytest.mark.parametrize("dies", [False, True])
def test_what_was_predicted_to_stay_is_not_taken(
    world: World, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    """The plan names it; then somebody tagged it, and the library deletes that tag."""
    plan = world.plan(older_than("10d"))
    rescued = SnapshotId(world.shelf.history("main")[3])
    assert rescued in going(world, plan)
    world.shelf.tag("rescued", rescued)

    def too_much() -> None:
        world.shelf.delete_tag("rescued")
        if dies:
            raise Died

    around(monkeypatch, lambda: None, too_much)
    if dies:
        monkeypatch.setattr(CollectionApplying, "_stop", lambda *_: None)
        with pytest.raises(Died):
            world.apply(plan)
        monkeypatch.undo()
        world.clock.advance(minutes=30)
    done = world.apply(plan)
    assert (done.collected, done.unplanned) == (len(going(world, plan)) - 1, 1)
    whole(world, {rescued})
    assert going(world, world.plan()) == {rescued}


def test_a_tag_that_the_library_would_delete_and_nobody_saw(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = SnapshotId(world.shelf.history("main")[2])
    world.shelf.tag("v1", old)
    plan = world.plan(older_than("10d"), delete_expired_tags=True)
    assert plan.document.deleted_refs == ["v1"]
    around(monkeypatch, lambda: world.shelf.tag("late", old), None)
    with pytest.raises(PlanRefused, match="late"):
        world.apply(plan, WEEK)
    assert world.shelf.read().tags == {"v1": old, "late": old}
    [run] = world.store().runs()
    assert (run.phase, run.edit.by_library) == (Phase.STOPPED, False)


def test_a_tag_that_was_made_meanwhile_is_seen(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = world.plan(older_than("10d"))
    old = SnapshotId(world.shelf.history("main")[3])
    around(monkeypatch, lambda: world.shelf.tag("late", old), None)
    done = world.apply(plan)
    assert (done.spared, done.unplanned) == (1, 0)
    whole(world, {old})


def test_an_undo_holds_what_the_library_took_too_much(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.commit("main", "c/1", days=5)
    world.age()
    plan = world.plan(older_than("10d"))
    also = SnapshotId(world.shelf.history("main")[1])
    asked = HeldShelf.expire_by_library

    def eager(held: HeldShelf, expiration: Expiration, seen: HistorySeen) -> bool:
        return asked(held, Expiration(older_than("4d"), expiration.now), seen)

    monkeypatch.setattr(HeldShelf, "expire_by_library", eager)
    done = world.apply(plan, WEEK)
    assert done.unplanned == 1
    assert any(also in sentence for sentence in world.undo(done.run).left)
    world.clock.advance(days=6)
    assert not going(world, world.plan())
    whole(world, {also})


def test_what_an_earlier_run_broke_is_not_promised(world: World) -> None:
    """A run that deleted has died after the chunks: nobody can bring that snapshot back."""
    world.shelf.branch("side", world.shelf.read().branches["main"])
    broken = world.commit("side", "s/1")
    world.shelf.delete_branch("side")
    world.age()

    def step(name: str) -> None:
        if name == "sweep manifest":
            raise Died

    plan = world.plan()
    with pytest.raises(Died):
        apply_plan(world.store(), world.engine(step), plan.place, opener=world.opener)
    world.clock.advance(hours=1)
    run = world.apply(world.plan(), WEEK).run
    assert broken not in world.store().taken(run)
    assert world.undo(run).snapshots == 0
    assert broken not in str(world.shelf.read())


def test_an_undo_that_dies_while_it_writes_can_be_repeated(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its snapshots are off the lists, and not in the index yet: the run has not ended."""
    plan = world.plan(older_than("10d"))
    returned = going(world, plan)
    run = world.apply(plan, WEEK).run

    def die(*_: object) -> None:
        raise Died

    monkeypatch.setattr(HeldShelf, "_after_restore", die)
    with pytest.raises(Died):
        world.undo(run)
    monkeypatch.undo()
    world.clock.advance(minutes=30)
    world.undo(run)
    assert returned <= world.shelf.read().snapshots.keys()
    assert not going(world, world.plan())
    whole(world, returned)


def cut_off_before_its_lists(world: World) -> tuple[str, set[SnapshotId]]:
    """A run whose undo died when it held what it was about to bring back."""
    plan = world.plan(older_than("10d"))
    run = world.apply(plan, WEEK).run

    def die(*_: object, **__: object) -> None:
        raise Died

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HeldSidecar, "restore", die)
        with pytest.raises(Died):
            world.undo(run)
    world.clock.advance(minutes=30)
    held = {lease.snapshot for lease, _ in world.store().leases()}
    assert held == going(world, plan)
    return run, held


def test_an_undo_that_dies_while_it_holds_stops_no_plan(world: World) -> None:
    """The snapshots that it holds are not there yet: that is no damage."""
    run, held = cut_off_before_its_lists(world)
    assert world.apply(world.plan()).collected == 0
    assert world.undo(run).snapshots == len(held)
    assert not going(world, world.plan())
    whole(world, held)


def test_a_purge_after_an_undo_that_died_while_it_held(world: World) -> None:
    cut_off_before_its_lists(world)
    assert world.purge(timedelta(0)) is not None
    assert world.store().leases() == []
    assert not going(world, world.plan())


def test_a_purge_after_a_partial_undo_leaves_what_came_back(world: World) -> None:
    """One snapshot lost an object in quarantine; the others are held for a day at least."""
    plan = world.plan(older_than("10d"))
    dead = going(world, plan)
    lost = min(dead)
    [file] = [one for one, kind in world.needs(lost).items() if kind == "snapshot"]
    run = world.apply(plan, WEEK).run
    aside = world.store().format.quarantine_path(run)
    world.storage.delete(aside + file.removeprefix(f"{NAME}/"))
    with pytest.raises(Partial):
        world.undo(run)
    assert world.purge(timedelta(0)) is not None
    assert not going(world, world.plan())
    whole(world, dead - {lost})
