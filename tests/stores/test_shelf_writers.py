"""Writers of a shelf at the same time as others, and as runs: nobody's change is lost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from reclaim.model import SnapshotId
from reclaim.stores.abilities import Expiration
from reclaim.testing import FakeClock
from tests.stores.shelf.library import Index, Shelf, ShelfError
from tests.stores.shelf.world import NAME, World, older_than


@pytest.fixture
def world(folder: Path, clock: FakeClock) -> World:
    """A snapshot on the default branch, and one that nothing reaches any more."""
    world = World.make(folder, clock)
    tip = world.commit("main", "a/1")
    world.shelf.branch("old", tip)
    world.commit("old", "b/1")
    return world


def before_write(
    monkeypatch: pytest.MonkeyPatch, shelf: Shelf, calls: list[Callable[[], object]]
) -> None:
    """Let others than a shelf be interrupted before they write its index, once for each call."""
    write = Shelf.write

    def interrupted(self: Shelf, index: Index) -> None:
        if self is not shelf and calls:
            calls.pop()()
        write(self, index)

    monkeypatch.setattr(Shelf, "write", interrupted)


def test_a_commit_while_a_run_removes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.shelf.delete_branch("old")
    world.age()
    plan = world.plan()
    committed: list[str] = []
    commit = partial(world.commit, "main", "c/1")
    before_write(monkeypatch, world.shelf, [lambda: committed.append(commit())])
    assert world.apply(plan).collected == 1
    assert world.shelf.read().branches["main"] == committed[0]
    world.check_whole()


def test_a_tag_while_a_run_removes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = SnapshotId(world.shelf.read().branches["old"])
    world.shelf.delete_branch("old")
    with world.store().lock("a run") as held:
        held.begin()
        before_write(monkeypatch, world.shelf, [lambda: world.shelf.tag("again", dead)])
        assert held.condemn({dead: "a rule"}) == 0
        # At no time is there a tag at what the index does not have.
        world.check_whole()
        assert held.promote() == 0
    assert world.shelf.read().tags == {"again": dead}


def test_a_tag_while_the_library_expires(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    old = world.shelf.read().branches["old"]
    world.shelf.delete_branch("old")
    world.age()
    asked = Expiration(older_than("1d"), world.clock.now(), delete_expired_tags=True)
    with world.store().lock("a run") as held:
        held.begin()
        seen = held.read_history()
        before_write(monkeypatch, world.shelf, [lambda: world.shelf.tag("again", old)])
        assert not held.expire_by_library(asked, seen)
    assert world.shelf.read().tags == {"again": old}


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
