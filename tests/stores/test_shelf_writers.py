"""Writers of a shelf at the same time as others, and as runs: nobody's change is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from reclaim.testing import FakeClock
from tests.stores.shelf.library import Index, Shelf, ShelfError
from tests.stores.shelf.world import NAME, World


@pytest.fixture
def world(folder: Path, clock: FakeClock) -> World:
    """A snapshot on the default branch, and one that nothing reaches any more."""
    world = World.make(folder, clock)
    tip = world.commit("main", "a/1")
    world.shelf.branch("old", tip)
    world.commit("old", "b/1")
    return world


def before_write(monkeypatch: pytest.MonkeyPatch, shelf: Shelf, call: list[object]) -> None:
    """Let something happen once, before a shelf writes its index."""
    write = Shelf.write

    def interrupted(self: Shelf, index: Index) -> None:
        if self is not shelf and call:
            call.pop()()  # type: ignore[operator]
        write(self, index)

    monkeypatch.setattr(Shelf, "write", interrupted)


def test_a_commit_while_a_run_removes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.shelf.delete_branch("old")
    world.age()
    plan = world.plan()
    committed: list[str] = []
    call: list[object] = [lambda: committed.append(world.commit("main", "c/1"))]
    before_write(monkeypatch, world.shelf, call)
    assert world.apply(plan).collected == 1
    assert world.shelf.read().branches["main"] == committed[0]
    world.check_whole()


def test_a_tag_while_a_run_removes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = world.shelf.read().branches["old"]
    world.shelf.delete_branch("old")
    world.age()
    plan = world.plan()
    before_write(monkeypatch, world.shelf, [lambda: world.shelf.tag("again", dead)])
    assert world.apply(plan).collected == 0
    assert world.shelf.read().tags == {"again": dead}
    world.check_whole()


def test_a_commit_on_what_a_run_removes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Shelf(world.storage, f"{NAME}/", world.clock)
    world.age()
    write, before = Shelf._write_snapshot, world.shelf.read().branches["old"]

    def slow(self: Shelf, *args: object) -> object:
        written = write(self, *args)  # type: ignore[arg-type]
        if self is other:
            world.shelf.delete_branch("old")
            assert world.apply(world.plan()).collected == 1
        return written

    monkeypatch.setattr(Shelf, "_write_snapshot", slow)
    with pytest.raises(ShelfError, match="moved or deleted"):
        other.commit("old", {"d/1": b"late"})
    assert before not in world.shelf.read().snapshots
    world.check_whole()
