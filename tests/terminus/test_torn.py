"""Layers that cannot be read: being written, damaged, or kept from us by the system."""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reclaim.errors import Conflict, Corrupt
from reclaim.model import SnapshotId
from reclaim.run.sweep.removal import DELETE
from tests.terminus.world import At, Past, World, bury, cut, stepped


@pytest.fixture
def past(world: World) -> Past:
    return bury(world)


@pytest.mark.parametrize("archives", [True, False])
@pytest.mark.parametrize("step", ["", "before observe", "survey"])
def test_one_that_is_being_written_again(
    world: World, past: Past, archives: bool, step: str
) -> None:
    """Torn and old when it was planned, and somebody restores it just now: it leaves the plan."""
    write = world.write
    write.archives = archives
    torn = write.layer(past.main[0], values=["torn"])
    cut(world, torn)
    world.age()
    plan = world.plan()
    assert plan.document.dead == len(past.dead) + 1
    path = world.folder / write.path(torn)

    def rewrite() -> None:
        os.utime(path)

    if not step:
        rewrite()
    touched = At(step or "never", rewrite)
    world.apply(plan, removal=DELETE, step=touched, store=stepped(world.store(), touched))
    assert world.there() == past.live | {torn}


def test_one_that_was_whole_when_it_was_planned(world: World, past: Past) -> None:
    """Its time is old, as of a copy that keeps times; nobody has planned to take what it is now."""
    plan = world.plan()
    cut(world, past.old[2])
    world.apply(plan, removal=DELETE)
    assert past.old[2] in world.there()
    # Seen as it is by a new plan, it is what a crash has left.
    world.quiet()
    assert world.there() == past.live


@pytest.mark.parametrize("which", ["old", "main"])
def test_one_that_the_system_does_not_let_us_read(
    world: World, past: Past, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails, or a right that is missing, says nothing about what the layer is."""
    kept = getattr(past, which)[1]
    opened = os.open

    def failing(path: str | Path, *args: int, **how: int) -> int:
        if str(path).endswith(f"{kept}.larch"):
            raise OSError(errno.EIO, "Input/output error", str(path))
        return opened(path, *args, **how)

    monkeypatch.setattr(os, "open", failing)
    if which == "main":
        with pytest.raises(Corrupt, match="Input/output error"):
            world.plan()
        return
    world.apply(world.plan(), removal=DELETE)
    assert kept in world.there()


def test_a_young_layer_above_a_torn_one(world: World, past: Past) -> None:
    """No label leads to either: both stay for the margin, and the rest is collected."""
    young = world.write.layer(past.torn, values=["young"])
    world.apply(world.plan())
    assert world.there() == past.live | {young, past.torn}
    world.quiet()
    assert world.there() == past.live


@pytest.mark.parametrize("which", ["parent", "rollup"])
def test_a_young_layer_without_what_it_needs(world: World, past: Past, which: str) -> None:
    """It stays for the margin, a plan names it, and the rest is collected."""
    write = world.write
    base = write.layer(values=["base"])
    young = write.layer(base)
    rollup = write.rollup(young)
    lost = base if which == "parent" else rollup
    (world.folder / write.path(lost)).unlink()
    plan = world.plan()
    [warning] = [one for one in plan.document.warnings if young in one]
    assert which in warning
    world.apply(plan)
    assert world.there() == past.live | {base, young, rollup} - {lost}
    assert world.aside() == past.dead
    # As soon as a label needs it, nothing goes on.
    write.label("late", young)
    with pytest.raises(Corrupt, match=f"{lost} is missing"):
        world.plan()
    write.unlabel("late")
    world.quiet()
    assert world.there() == past.live


def test_what_came_back_torn_is_in_nobodys_way(world: World, past: Past) -> None:
    child = world.write.layer(past.torn, values=["child"])
    world.age()
    run = world.apply(world.plan()).run
    assert child in world.aside()
    world.undo(run)
    assert world.plan().document.candidates == 0
    world.quiet()
    assert world.there() == past.live


def test_a_label_above_a_torn_one_is_still_refused(world: World, past: Past) -> None:
    world.write.label("hurt", world.write.layer(past.torn))
    with pytest.raises(Corrupt, match=past.torn):
        world.plan()


# Two copies of one layer


def aside(world: World, layer: SnapshotId) -> Path:
    [path] = world.folder.glob(f".reclaim/quarantine/*/{world.write.path(layer)}")
    return path


@pytest.mark.parametrize("at", [0, 2], ids=["archive", "directory"])
@pytest.mark.parametrize("same", [True, False])
def test_a_copy_is_dropped_only_for_the_same_bytes(
    world: World, past: Past, at: int, same: bool
) -> None:
    """An unreadable file of the same size in the old place must not cost the good one."""
    layer = past.old[at]
    world.apply(world.plan())
    good = aside(world, layer)
    home = world.folder / world.write.path(layer)
    world.write.folders.clear()
    world.write.archives = good.suffix == ".larch"
    parent = None if at == 0 else past.old[at - 1]
    world.write.layer(parent, values=[f"old {at}"], layer=layer)
    file = home if home.is_file() else home / "value_dictionary_blocks.tfc"
    if not same:
        file.write_bytes(bytes(file.stat().st_size))
    view = world.store().storage
    source, target = (str(path.relative_to(world.folder.parent)) for path in (good, home))
    size = view.head(source).size
    assert view.head(target).size == size
    if same:
        view.move(source, target, size=size, fresh=datetime.now(UTC))
        assert not good.exists()
    else:
        with pytest.raises(Conflict, match="differs from"):
            view.move(source, target, size=size, fresh=datetime.now(UTC))
        assert good.exists()
        assert not any(file.read_bytes())
    assert home.exists()
    assert list(view.stream(target))
