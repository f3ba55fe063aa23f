"""Links and other file systems inside a store: refused by name, and nothing goes through them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from reclaim.errors import Conflict, Partial, ReclaimError, Refused
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine
from reclaim.run_record import Phase
from reclaim.stores.terminus.folder import StoreFolder
from reclaim.stores.terminus.labels import file_name
from tests.terminus.world import At, Past, World, bury


@pytest.fixture
def past(world: World) -> Past:
    return bury(world)


def everything(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and ".reclaim" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def refused(world: World, name: str) -> None:
    """Neither a plan, an apply of an older one, nor a purge goes on."""
    before = everything(world.folder)
    with pytest.raises(Refused, match=name) as error:
        world.plan()
    assert error.value.hint
    assert everything(world.folder) == before


def test_a_shard_that_is_a_link(world: World, past: Past) -> None:
    """Under its second name a live layer would be a file in the wrong shard."""
    plan = world.plan()
    alias = world.folder / "000"
    alias.symlink_to(past.main[0][:3])
    refused(world, "000")
    with pytest.raises(Refused, match="000"):
        world.apply(plan, removal=DELETE)
    assert past.live | past.dead <= world.there()


def test_a_shard_that_points_nowhere(world: World, past: Past) -> None:
    """Its layers would be missing, and all that only they refer to would be dead."""
    shard = world.folder / past.main[0][:3]
    shutil.rmtree(shard)
    shard.symlink_to("nowhere")
    refused(world, shard.name)


@pytest.mark.parametrize("which", ["archive", "rollup", "directory", "in a directory", "stray"])
def test_a_layer_that_is_a_link(world: World, past: Past, which: str, tmp_path: Path) -> None:
    write = world.write
    path = {
        "archive": world.folder / write.path(past.old[0]),
        "rollup": world.folder / write.rollup_path(past.old[1]),
        "directory": world.folder / write.path(past.old[2]),
        "in a directory": world.folder / write.path(past.old[2]) / "parent.hex",
        "stray": world.folder / past.old[0][:3] / "stray",
    }[which]
    elsewhere = tmp_path / "elsewhere"
    if which == "stray":
        elsewhere.write_bytes(b"")
    else:
        path.rename(elsewhere)
    path.symlink_to(elsewhere)
    refused(world, path.name)
    assert elsewhere.exists()


@pytest.mark.parametrize("to", ["main", "nowhere"])
def test_a_label_that_is_a_link(world: World, past: Past, to: str) -> None:
    (world.folder / file_name("alias")).symlink_to(file_name(to))
    refused(world, "alias")


@pytest.mark.parametrize("name", [".reclaim", ".reclaim/quarantine", ".reclaim/leases"])
def test_our_own_folder_as_a_link(world: World, past: Path, tmp_path: Path, name: str) -> None:
    plan = world.plan()
    elsewhere = tmp_path / "elsewhere"
    ours = world.folder / name
    if ours.exists():
        ours.rename(elsewhere)
    else:
        elsewhere.mkdir()
    ours.symlink_to(elsewhere)
    for work in (world.plan, lambda: world.apply(plan)):
        with pytest.raises(ReclaimError, match=ours.name):
            work()
    assert list(elsewhere.rglob("*.larch")) == []


@pytest.mark.parametrize("archives", [True, False])
def test_a_shard_that_becomes_a_link_before_the_sweep(
    world: World, past: Past, archives: bool, tmp_path: Path
) -> None:
    """Nothing is moved or deleted through a link that came after every check."""
    world.write.archives = archives
    dead = world.write.layer(values=["only this one"])
    world.age()
    shard = world.folder / dead[:3]

    def swap() -> None:
        shard.rename(tmp_path / "elsewhere")
        shard.symlink_to(tmp_path / "elsewhere")

    plan = world.plan()
    with pytest.raises(ReclaimError):
        world.apply(plan, removal=DELETE, step=At("sweep layer", swap))
    assert (tmp_path / "elsewhere" / Path(world.write.path(dead)).name).exists()


@pytest.mark.parametrize("undone", [False, True])
def test_a_link_in_quarantine(world: World, past: Past, undone: bool, tmp_path: Path) -> None:
    run = world.apply(world.plan()).run
    shard = world.folder / ".reclaim/quarantine" / run / past.old[0][:3]
    shard.rename(tmp_path / "elsewhere")
    shard.symlink_to(tmp_path / "elsewhere")
    world.clock.advance(MoveToQuarantine().keep)
    with pytest.raises(ReclaimError, match=shard.name):
        world.undo(run) if undone else world.purge()
    assert (tmp_path / "elsewhere" / f"{past.old[0]}.larch").exists()
    assert world.there() >= past.live


@pytest.mark.parametrize("which", ["run", "run, as a shard", "shard", "shard, as a layer"])
@pytest.mark.parametrize("to", ["nowhere", "../../../.."])
def test_a_link_that_no_run_put_in_quarantine(
    world: World, past: Past, which: str, to: str
) -> None:
    """The undo is done, says that the link was left, and says so once."""
    run = world.apply(world.plan()).run
    folder = world.folder / ".reclaim/quarantine" / run
    shard = past.old[0][:3]
    path = {
        "run": folder / "link",
        "run, as a shard": folder / "fff",
        "shard": folder / shard / "link",
        "shard, as a layer": folder / shard / f"{shard}{'0' * 37}.larch",
    }[which]
    path.symlink_to(to)
    undone = world.undo(run)
    assert [line for line in undone.left if str(path) in line]
    assert world.there() == past.live | past.dead
    assert path.is_symlink()
    with pytest.raises(Conflict, match="undone already"):
        world.undo(run)


@pytest.mark.parametrize("to", ["nowhere", "../../../../main.label"])
def test_a_link_in_the_place_of_a_layer_in_quarantine(world: World, past: Past, to: str) -> None:
    """Each undo names it, and none is over before the layer is back."""
    run = world.apply(world.plan()).run
    path = world.folder / ".reclaim/quarantine" / run / world.write.path(past.old[0])
    whole = path.read_bytes()
    times = path.stat()
    path.unlink()
    path.symlink_to(to)
    for _ in range(3):
        with pytest.raises(ReclaimError, match=path.name) as error:
            world.undo(run)
        assert error.value.hint
        found = world.store().find_run(run)
        assert found is not None
        assert found.phase == Phase.UNDOING
    path.unlink()
    path.write_bytes(whole)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    world.undo(run)
    assert world.there() == past.live | past.dead


def test_another_file_system_in_quarantine(
    world: World, past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as nobody can look into it, the undo is not over."""
    run = world.apply(world.plan()).run
    folder = world.folder / ".reclaim/quarantine" / run / "fff"
    folder.mkdir()
    with monkeypatch.context() as patch:
        mount(patch, folder)
        for _ in range(2):
            with pytest.raises(Partial, match="fff"):
                world.undo(run)
    world.undo(run)
    assert world.there() == past.live | past.dead


@pytest.mark.parametrize("which", ["shard", "archive", "directory", "in a directory"])
def test_another_file_system(
    world: World, past: Past, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a mount below the store: a rename would fail on the way, so that nothing is begun."""
    write = world.write
    path = {
        "shard": world.folder / past.old[0][:3],
        "archive": world.folder / write.path(past.old[0]),
        "directory": world.folder / write.path(past.old[2]),
        "in a directory": world.folder / write.path(past.old[2]) / "parent.hex",
    }[which]
    mount(monkeypatch, path)
    refused(world, path.name)


def mount(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Let a file or folder look as if it were on another file system."""
    mounted = path.stat().st_ino
    check, whole = StoreFolder.check, os.fstat

    def elsewhere(status: os.stat_result) -> os.stat_result:
        if status.st_ino != mounted:
            return status
        return os.stat_result((*status[:2], status.st_dev + 1, *status[3:]))

    monkeypatch.setattr(
        StoreFolder, "check", lambda self, address, status: check(self, address, elsewhere(status))
    )
    monkeypatch.setattr(os, "fstat", lambda handle: elsewhere(whole(handle)))
