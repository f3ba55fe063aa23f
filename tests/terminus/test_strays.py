"""What is not a layer by the format's own names is never taken, brought back or deleted."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from reclaim.errors import OwnedAddress, Refused
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine
from reclaim.stores.terminus.addresses import layer_of
from reclaim.stores.terminus.store import TerminusStore
from reclaim.testing import FakeClock
from tests.terminus.world import Past, World, age_all, bury, make_world


@pytest.fixture
def past(world: World) -> Past:
    return bury(world)


def put(world: World, name: str, data: bytes = b"a note") -> Path:
    """An old file somewhere in the store's folder."""
    path = world.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    old = world.clock.now().timestamp() - 10 * 86_400
    os.utime(path, (old, old))
    return path


STRAYS = [".DS_Store", "note.txt", "abc/.DS_Store", "notes/layer", "abc/" + "d" * 40 + ".larch"]


@pytest.mark.parametrize("stray", STRAYS)
def test_beside_what_a_run_has_set_aside(world: World, past: Past, stray: str) -> None:
    """A label came back to a layer in a directory; the note is neither a layer nor of one."""
    run = world.apply(world.plan()).run
    world.write.label("again", past.old[2])
    note = put(world, f".reclaim/quarantine/{run}/{stray}")
    world.clock.advance(MoveToQuarantine().keep)
    done = world.purge()
    assert done is not None
    assert set(past.old) <= world.there()
    world.check()
    assert note.read_bytes() == b"a note"
    assert not (world.folder / stray).exists()
    assert len(list(world.folder.glob(".reclaim/quarantine/*/???/*"))) == stray.startswith("abc")


@pytest.mark.parametrize("stray", STRAYS)
def test_an_undo_leaves_it_and_names_it(world: World, past: Past, stray: str) -> None:
    run = world.apply(world.plan()).run
    note = put(world, f".reclaim/quarantine/{run}/{stray}")
    undone = world.undo(run)
    assert [line for line in undone.left if line.split()[0] in str(note)]
    assert note.exists()
    assert not (world.folder / stray).exists()
    world.check()
    assert world.there() == past.live | past.dead


@pytest.mark.parametrize("name", ["{}.larch", "{}.rollup.hex", "{}", "{}.larch.tmp", "x{}.larch"])
@pytest.mark.parametrize("whole", [False, True])
def test_a_file_in_the_wrong_shard(world: World, past: Past, name: str, whole: bool) -> None:
    """A copy of a layer that somebody put elsewhere is a file like any other."""
    data = (world.folder / world.write.path(past.old[0])).read_bytes() if whole else b"mine"
    strays = [put(world, f"abc/{name.format('0' * 40)}", data)]
    if name != "{}":
        strays.append(put(world, f"{past.main[0][:3]}/{name.format('f' * 40)}", data))
    plan = world.plan()
    world.apply(plan, removal=DELETE)
    assert [path.read_bytes() for path in strays] == [data] * len(strays)
    kinds = {group.kind: group.objects for group in plan.document.staying}
    assert kinds["unknown"] == len(strays)
    for path in strays:
        path.unlink()
    assert world.there() == past.live


@pytest.mark.parametrize("name", ["abc/abc{}", "abc/abc{}.larch", "abc/abc{}.rollup.hex"])
def test_the_name_of_a_layer_on_something_else(world: World, past: Past, name: str) -> None:
    """A file where a directory must be, or the other way round: nothing is guessed."""
    path = world.folder / name.format("0" * 37)
    if path.suffix:
        path.mkdir(parents=True)
    else:
        put(world, str(path.relative_to(world.folder)))
    with pytest.raises(Refused, match=path.name):
        world.plan()
    assert past.dead < world.there()


def test_a_pipe_keeps_nobody_waiting(world: World, past: Past) -> None:
    path = world.folder / "abc" / f"abc{'0' * 37}.larch"
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    with pytest.raises(Refused, match=path.name):
        world.plan()


def test_a_name_that_is_no_text(world: World, past: Past) -> None:
    folder = os.fsencode(world.folder / past.main[0][:3])
    with open(folder + b"/\xff\xfe.larch", "wb"):  # noqa: PTH123
        pass
    world.apply(world.plan())
    assert past.live < world.there()
    assert not past.dead & world.there()


@pytest.mark.parametrize("name", ["back\\slash", "a\\Eb", "a\\Q.*", "50% [x] {y}", "ünï ❄"])
def test_any_name_of_a_folder(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    world = make_world(tmp_path, clock, monkeypatch)
    world.folder.rmdir()
    world.folder = tmp_path / name
    world.folder.mkdir()
    past = bury(world)
    stray = put(world, f"{past.main[0][:3]}/a\\b.larch")
    run = world.apply(world.plan()).run
    stray.unlink()
    assert world.there() == past.live
    assert world.aside() == past.dead
    world.undo(run)
    assert world.there() == past.live | past.dead
    age_all(world.folder, clock)


def test_a_folder_whose_name_cannot_be_an_address(tmp_path: Path) -> None:
    folder = tmp_path / "line\nbreak"
    folder.mkdir()
    with pytest.raises(Refused, match="line"):
        TerminusStore(folder)


def test_of_quarantine_only_layers_are_known(world: World, past: Past) -> None:
    """Whoever lists all of a run's folder finds nothing else in it either."""
    folder = f"store/.reclaim/quarantine/{'a' * 32}"
    layer = f"abc/abc{'0' * 37}"
    names = [f"{layer}.larch", layer, f"{layer}.rollup.hex", ".reclaim/runs/x/plan.json"]
    strays = [".DS_Store", "note", f"abd/{layer[4:]}", f"{layer}/parent.hex", "abc/.DS_Store"]
    kinds = world.store().format.describe(pa.array([f"{folder}/{n}" for n in names + strays]))
    told = [one["kind"] for one in kinds.to_pylist()]
    assert told == ["quarantine"] * len(names) + ["unknown"] * len(strays)


@pytest.mark.parametrize(
    "name",
    ["main.label", "STORAGE_VERSION", ".reclaim/leases/x.json", ".reclaim/lock/1", "abc", "x/y"],
)
def test_nothing_else_is_taken_whatever_a_plan_says(world: World, past: Past, name: str) -> None:
    path = world.folder / name
    if not path.exists():
        put(world, name)
    view = world.store().storage
    address = f"store/{name}"
    with pytest.raises(OwnedAddress):
        view.delete(address)
    with pytest.raises(OwnedAddress):
        view.delete_page([address])
    with pytest.raises(OwnedAddress):
        view.move(address, f"store/.reclaim/quarantine/run/{name}", size=path.stat().st_size)
    assert path.exists()


def test_a_listing_of_quarantine_has_no_strays(world: World, past: Past) -> None:
    """As a run is found whose journal is gone: by the folders that it made."""
    run = world.apply(world.plan()).run
    folder = f"store/.reclaim/quarantine/{run}"
    for stray in STRAYS:
        put(world, f".reclaim/quarantine/{run}/{stray}")
    folders, files = world.store().storage.folders(folder)
    assert files == []
    assert {one.rpartition("/")[2] for one in folders} == {one[:3] for one in past.dead} | {"abc"}
    listed = [stored for one in folders for stored in world.store().storage.list(one)]
    assert {layer_of(stored.address) for stored in listed} == past.dead
