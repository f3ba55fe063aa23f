"""Labels that move while they are read: whatever always had a label is found."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable
from typing import IO

import pytest

from reclaim.errors import Corrupt, OutOfTime
from reclaim.stores.terminus import label_files
from reclaim.stores.terminus.labels import file_name
from tests.terminus.world import Past, World, bury

Moves = Callable[[Callable[[str], None]], None]


@pytest.fixture
def past(world: World) -> Past:
    return bury(world)


@pytest.fixture
def before_each(monkeypatch: pytest.MonkeyPatch) -> Moves:
    """Have something done before each label is read."""

    def patch(work: Callable[[str], None]) -> None:
        def read(file: str) -> bytes:
            work(file)
            return inner(file)

        monkeypatch.setattr(label_files, "_read_locked", read)

    inner = label_files._read_locked
    return patch


def test_a_layer_that_goes_from_one_label_to_another(
    world: World, past: Past, before_each: Moves
) -> None:
    """The one it goes to was read before, and the one it leaves is read after."""
    write = world.write
    write.label("a", past.main[0])
    write.label("b", past.old[2])

    def move(file: str) -> None:
        if file.endswith("/b.label"):
            write.label("a", past.old[2])
            write.label("b", past.main[0])

    before_each(move)
    assert past.old[2] in {label.layer for label in label_files.read_labels(world.folder)}


def test_a_database_that_is_renamed(world: World, past: Past, before_each: Moves) -> None:
    write = world.write
    write.label("old name", past.old[2])

    def rename(file: str) -> None:
        if file.endswith(file_name("old name")):
            write.label("another", past.old[2])
            (world.folder / file_name("old name")).unlink()

    before_each(rename)
    assert past.old[2] in {label.layer for label in label_files.read_labels(world.folder)}


def test_labels_that_never_stand_still(world: World, past: Past, before_each: Moves) -> None:
    versions = iter(range(1_000))
    before_each(lambda _file: world.write.label("main", past.main[-1], version=next(versions)))
    with pytest.raises(OutOfTime, match="changed during each"):
        world.plan()
    assert past.dead <= world.there()


@pytest.mark.parametrize("stage", ["plan", "apply"])
def test_a_label_that_stays_locked(
    world: World, past: Past, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = world.plan()
    monkeypatch.setattr(label_files, "PAUSE", 0)
    lock = fcntl.flock

    def lock_at_once(label: IO[bytes], how: int) -> None:
        assert how & fcntl.LOCK_NB, "this would wait for ever"
        lock(label, how)

    with (world.folder / file_name("main")).open("rb+") as label:
        fcntl.flock(label, fcntl.LOCK_EX)
        monkeypatch.setattr(fcntl, "flock", lock_at_once)
        with pytest.raises(
            OutOfTime, match=r"main\.label' has been locked by another process"
        ) as error:
            world.plan() if stage == "plan" else world.apply(plan)
        assert "main.label" in (error.value.hint or "")
    assert past.dead <= world.there()
    # Once it is let go, the same plan can be applied.
    world.apply(plan)
    assert world.there() == past.live


def test_a_label_that_is_locked_for_a_moment(
    world: World, past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server is writing it: it is read as it is written in the end."""
    waits: list[float] = []
    with (world.folder / file_name("main")).open("rb+") as label:
        fcntl.flock(label, fcntl.LOCK_EX)

        def wait(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                world.write.label("main", past.old[2])
                fcntl.flock(label, fcntl.LOCK_UN)

        monkeypatch.setattr(time, "sleep", wait)
        [main] = label_files.read_labels(world.folder)
    assert main.layer == past.old[2]
    assert waits == [label_files.PAUSE] * 3


def test_a_label_of_any_length_is_not_read_whole(world: World, past: Past) -> None:
    with (world.folder / file_name("long")).open("wb") as file:
        file.truncate(2**42)
    with pytest.raises(Corrupt, match="the label long cannot be read"):
        world.plan()
