"""A copy of a whole store beside it: neither of the two reads or writes what is the other's."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from reclaim.engine.tasks.parts import Place
from reclaim.model import SnapshotId
from reclaim.run.record.journal import Journal
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.run_record import Phase
from tests.support.dying import Died
from tests.terminus.world import World

MONTH = MoveToQuarantine(timedelta(days=30))
NAMES = ("stor2", "store2")
"""Of a copy: as long as the name of the original, and longer."""
WITH_TIMES: dict[bool, Callable[..., object]] = {True: shutil.copy2, False: shutil.copyfile}


def set_aside(world: World, *, cut: bool = False, place: Place | None = None) -> tuple[str, str]:
    """A run that has two layers in quarantine, and the upper one of them."""
    write = world.write
    for number in range(8):
        write.label(f"main {number}", write.layer(values=[str(number)]))
    dead = write.layer(write.layer(values=["below"]), values=["dead"])
    world.age()
    plan = world.plan(allowed_fraction=1.0, place=place)

    def die(*_: object) -> None:
        raise Died

    with pytest.MonkeyPatch.context() as patch:
        if cut:
            patch.setattr(Journal, "note", die)
        try:
            world.apply(plan, removal=MONTH)
        except Died:
            assert cut
    world.clock.advance(minutes=30)
    assert len(world.aside()) == 2
    return plan.document.run, dead


def copied(world: World, name: str, *, times: bool = True) -> World:
    folder = world.folder.with_name(name)
    shutil.copytree(world.folder, folder, copy_function=WITH_TIMES[times])
    return World(folder, world.clock)


def files_of(world: World) -> set[Path]:
    return {path for path in world.folder.parent.rglob("*") if path.is_file()}


def state_of(world: World, run: str) -> str:
    found = world.store().find_run(run)
    assert found is not None
    return found.phase


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut"])
@pytest.mark.parametrize("out", [False, True], ids=["in it", "elsewhere"])
def test_an_undo_in_a_copy(world: World, name: str, cut: bool, out: bool) -> None:
    """Also if the plan was written elsewhere: it is still the original's."""
    place = Place(world.storage.url, "elsewhere/plan/") if out else None
    run, dead = set_aside(world, cut=cut, place=place)
    copy = copied(world, name)
    before = {path for path in files_of(world) if copy.folder not in path.parents}
    assert copy.undo(run).snapshots == 2
    assert dead in copy.there()
    assert copy.aside() == set()
    assert {path for path in files_of(world) if copy.folder not in path.parents} == before
    assert world.undo(run).snapshots == 2
    assert dead in world.there()
    assert state_of(copy, run) == state_of(world, run) == Phase.UNDONE


def test_a_copy_without_times(world: World) -> None:
    """By the times of the original's files nothing of it would be its own."""
    run, dead = set_aside(world)
    copy = copied(world, "stor2", times=False)
    assert copy.undo(run).snapshots == 2
    assert dead in copy.there()


@pytest.mark.parametrize("name", NAMES)
def test_a_purge_in_a_copy(world: World, name: str) -> None:
    run, dead = set_aside(world)
    copy = copied(world, name)
    assert copy.purge(timedelta(0)) is not None
    assert copy.aside() == set()
    assert world.undo(run).snapshots == 2
    assert dead in world.there()


def test_a_purge_in_a_copy_that_needs_a_layer_again(world: World) -> None:
    """A label of the copy names it: the purge brings it back, with what it needs."""
    run, dead = set_aside(world)
    copy = copied(world, "store2")
    copy.write.label("again", SnapshotId(dead))
    purged = copy.purge(timedelta(0))
    assert purged is not None
    assert purged.summary()["rescued"] == 2
    assert dead in copy.there()
    copy.check()
    assert state_of(copy, run) == Phase.PURGED
