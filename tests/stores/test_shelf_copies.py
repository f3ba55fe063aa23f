"""A copy of a shelf beside it: what a run of the original wrote is not read in the copy."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from reclaim.errors import Refused
from reclaim.run.plan.planning import PlanOptions, make_plan
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.run.undo.undo_run import undo_run
from reclaim.run_record import Phase
from reclaim.testing import FakeClock
from tests.stores.shelf.store import ShelfStore
from tests.stores.shelf.world import NAME, World, older_than
from tests.stores.test_shelf_released import killed

WEEK = MoveToQuarantine(timedelta(days=7))
NAMES = ("b shelf", "a shelf, copied")
"""Of a copy: as long as the name of the original, and longer."""


@pytest.fixture
def world(folder: Path, clock: FakeClock) -> World:
    """Five old snapshots and a young one, on one branch."""
    world = World.make(folder, clock)
    for number in range(5):
        world.commit("main", f"a/{number}")
    world.commit("main", "b/1", days=30)
    world.age()
    return world


def copied(world: World, name: str) -> ShelfStore:
    root = Path(unquote(urlsplit(world.root).path))
    shutil.copytree(root / NAME, root / name)
    return ShelfStore(f"{world.root}/{name}", clock=world.clock, storage=world.storage)


@pytest.mark.parametrize("name", NAMES)
def test_an_undo_in_a_copy(world: World, name: str) -> None:
    plan = world.plan(older_than("10d"))
    done = world.apply(plan, WEEK)
    assert done.collected
    copy = copied(world, name)
    before = {one.address for one in world.storage.list(NAME)}
    undone = undo_run(copy, world.engine(), done.run, opener=world.opener)
    assert undone.snapshots == done.collected
    assert {one.address for one in world.storage.list(NAME)} == before
    assert world.undo(done.run).snapshots == done.collected
    world.check_whole()
    for snapshot in copy.library.read().snapshots:
        copy.library.files(snapshot)


def test_the_list_of_what_a_library_released_is_the_copys_own(world: World) -> None:
    """An apply was killed after the library's edit, and the original has been purged since."""
    plan = world.plan(older_than("10d"))
    run = killed(world, plan)
    copy = copied(world, "b shelf")
    assert world.purge(timedelta(0)) is not None
    [listed] = [one.address for one in world.storage.list(NAME) if "/released-" in one.address]
    world.storage.delete(listed)
    with pytest.raises(Refused, match=f"run {run} has objects in quarantine"):
        make_plan(copy, world.engine(), PlanOptions(), opener=world.opener)
    undone = undo_run(copy, world.engine(), run, opener=world.opener)
    assert any("leases hold" in sentence for sentence in undone.left)
    found = copy.find_run(run)
    assert found is not None
    assert found.phase == Phase.UNDONE
    assert not make_plan(copy, world.engine(), PlanOptions(), opener=world.opener).document.dead
