"""Purge marks a second time: what is referred to again comes back instead of going for good."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from reclaim.engine.tasks.parts import Place
from reclaim.errors import Corrupt, Gone, OutOfTime, Partial
from reclaim.model import SnapshotId
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.purge.purge import Purged
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.run_record import Phase
from reclaim.stores.base import HeldLock
from reclaim.stores.terminus.addresses import layer_of
from reclaim.stores.terminus.held import HeldTerminus
from reclaim.stores.terminus.view import LayerView
from tests.terminus.world import (
    MOVE,
    At,
    Past,
    World,
    age_all,
    bury,
    stepped,
    taking_what_others_need,
)

WEEK = MoveToQuarantine().keep


@pytest.fixture
def past(world: World) -> Past:
    return bury(world)


def purged(world: World, **how: object) -> Purged:
    world.clock.advance(WEEK)
    done = world.purge(**how)  # type: ignore[arg-type]
    assert done is not None
    return done


def test_a_label_that_was_moved_to_it(world: World, past: Past) -> None:
    """As a database that is cloned again: old files that are in use, and not young at all."""
    run = world.apply(world.plan()).run
    world.write.label("clone", past.old[1])
    done = purged(world)
    kept = {past.old[0], past.old[1], past.old_rollup}
    assert world.there() == past.live | kept
    assert world.aside() == set()
    # Two layers, the rollup, and the file that points at it.
    assert done.summary()["rescued"] == 4
    assert done.summary()["objects"] == 2
    world.check()
    contents = world.contents()
    assert contents.layers[past.old[1]].rollup == past.old_rollup
    assert world.store().find_run(run).phase == Phase.PURGED  # type: ignore[union-attr]
    # It is a layer like others again: it can be held, and goes when it is dead and old.
    with world.store().lease(past.old[1]):
        pass
    world.write.unlabel("clone")
    world.quiet()
    assert world.there() == past.live


def test_a_label_on_a_layer_that_names_it_in_data(world: World, past: Past) -> None:
    world.apply(world.plan())
    graph = world.write.layer(names=[past.old[0]])
    world.age()
    # By itself it is dead; an id in data that names no layer keeps nothing.
    world.write.label("graph", graph)
    done = purged(world)
    assert done.summary()["rescued"] == 1
    assert world.there() == past.live | {graph, past.old[0]}
    world.check()


def test_a_young_layer_that_stands_on_it(world: World, past: Past) -> None:
    run = world.apply(world.plan()).run
    world.clock.advance(WEEK - timedelta(hours=1))
    child = world.write.layer(past.old[0], values=["restored from somewhere"])
    [warning] = [one for one in world.plan().document.warnings if child in one]
    assert run in warning
    world.clock.advance(hours=1)
    done = world.purge()
    assert done is not None
    assert done.summary()["rescued"] == 1
    assert world.there() == past.live | {past.old[0], child}
    world.check()


def test_a_lease_that_was_written_and_not_checked_yet(world: World, past: Past) -> None:
    """Its holder will be refused, but nobody can know that: what it names stays."""
    store = world.store()
    lease = store.take_lease(past.old[0], holder="reader", length=2 * WEEK)
    told = (world.folder / f".reclaim/leases/{lease.id}.json").read_bytes()
    store.release_lease(lease.id)
    world.apply(world.plan())
    with pytest.raises(Gone):
        store.take_lease(past.old[0], holder="reader")
    world.clock.advance(WEEK)
    world.storage.put(f"store/.reclaim/leases/{lease.id}.json", told)
    done = world.purge()
    assert done is not None
    assert world.there() == past.live | {past.old[0]}


def test_what_two_runs_have_set_aside(world: World) -> None:
    """A layer that one run has aside stands on one that the other has."""
    write = world.write
    write.label("main", write.layer(values=["main"]))
    parent = write.layer(values=["parent"])
    child = write.layer(parent, values=["child"])
    world.age()
    plan = world.plan()
    lease = world.store().take_lease(parent, holder="reader")
    world.apply(plan)
    assert world.aside() == {child}
    world.store().release_lease(lease.id)
    with taking_what_others_need():
        world.apply(world.plan())
    assert world.aside() == {parent, child}
    write.label("again", child)
    done = purged(world)
    assert len(done.runs) == 2
    assert world.aside() == set()
    assert {parent, child} <= world.there()
    world.check()


@pytest.mark.parametrize("step", ["before needed", "before check", "before begin"])
def test_a_label_that_is_moved_while_it_is_purged(world: World, past: Past, step: str) -> None:
    world.apply(world.plan())
    moved = At(step, lambda: world.write.label("late", past.old[-1]))
    purged(world, store=stepped(world.store(), moved))
    assert moved.done
    assert set(past.old) <= world.there()
    world.check()


@pytest.mark.parametrize("labelled", [False, True])
def test_a_purge_past_its_budget(world: World, past: Past, labelled: bool) -> None:
    """What it marked a second time may be referred to by now; so nothing goes for good."""
    world.apply(world.plan())
    if labelled:
        world.write.label("clone", past.old[1])
    world.clock.advance(WEEK)
    store = world.store()
    held: list[HeldLock] = []
    take = store.lock

    @contextmanager
    def remembered(run_id: str) -> Iterator[HeldTerminus]:
        with take(run_id) as handle:
            held.append(handle.lock)
            yield handle

    def pass_time() -> None:
        for _ in range(16):
            world.clock.advance(minutes=1)
            held[0].renew()

    store.lock = remembered  # type: ignore[method-assign]
    passed = At("after needed", pass_time)
    every = world.there() | world.aside()
    # Where something came back before, the purge has changed something.
    with pytest.raises(Partial if labelled else OutOfTime, match="leases may have changed"):
        world.purge(store=stepped(store, passed))
    assert passed.done
    assert world.there() | world.aside() == every
    # What was needed is back, and the rest can be purged.
    assert (past.old[1] in world.there()) == labelled
    assert world.purge() is not None
    assert world.aside() == set()
    world.check()


def test_a_purge_in_a_store_that_must_not_be_collected(world: World, past: Past) -> None:
    world.apply(world.plan())
    world.clock.advance(WEEK)
    (world.folder / "STORAGE_VERSION").write_bytes(b"3")
    with pytest.raises(Exception, match="STORAGE_VERSION"):
        world.purge()
    (world.folder / "STORAGE_VERSION").unlink()
    label = next(world.folder.glob("*.label"))
    data = label.read_bytes()
    label.write_bytes(b"1\n")
    with pytest.raises(Corrupt):
        world.purge()
    assert world.aside() == past.dead
    label.write_bytes(data)
    assert world.purge() is not None
    assert world.aside() == set()


def test_something_else_in_its_place(world: World, past: Past) -> None:
    """What was set aside is not put over something else; it stays where it is."""
    run = world.apply(world.plan()).run
    path = world.folder / world.write.path(past.old[0])
    path.write_bytes(b"something else")
    with pytest.raises(Partial):
        world.undo(run)
    assert path.read_bytes() == b"something else"
    assert past.old[0] in world.aside()
    path.unlink()
    world.undo(run)
    assert world.there() == past.live | past.dead


def test_a_layer_that_was_written_again_meanwhile(world: World, past: Past) -> None:
    run = world.apply(world.plan()).run
    write = world.write
    write.layer(values=["old 0"], layer=past.old[0])
    undone = world.undo(run)
    assert undone.snapshots == len(past.dead) - 1
    assert world.there() == past.live | past.dead
    assert world.aside() == set()


def spoil(data: bytes, how: str) -> bytes:
    """As many bytes, and others."""
    if how == "last bit":
        return data[:-1] + bytes([data[-1] ^ 1])
    return data[:-512] + bytes(512)


@pytest.mark.parametrize("labelled", ["itself", "child"])
@pytest.mark.parametrize("how", ["last bit", "last 512 bytes", "directory"])
def test_other_bytes_in_its_place(world: World, how: str, labelled: str) -> None:
    """They can be read, and are not the layer: the only good bytes are in quarantine."""
    write = world.write
    write.archives = how != "directory"
    for number in range(3):
        write.label(f"keep {number}", write.layer(values=[str(number)]))
    layer = write.layer(values=[f"value {number}" for number in range(1000)])
    child = write.layer(layer)
    world.age()
    run = world.apply(world.plan()).run
    aside = world.folder / ".reclaim/quarantine" / run / write.path(layer)
    home = world.folder / write.path(layer)
    if how == "directory":
        shutil.copytree(aside, home)
        file = home / "base_s_p_adjacency_list_nums.logarray"
        file.write_bytes(spoil(file.read_bytes(), "last bit"))
    else:
        home.write_bytes(spoil(aside.read_bytes(), how))
    whole = contents_of(aside)
    write.label("again", layer if labelled == "itself" else child)
    age_all(home, world.clock)
    world.clock.advance(WEEK)
    for _ in range(2):
        with pytest.raises(Partial, match="both were left") as error:
            world.purge()
        assert error.value.details["objects"] == 0
        assert contents_of(aside) == whole != contents_of(home)
    # As the message says: who moves the other bytes away gets the layer back.
    shutil.rmtree(home) if home.is_dir() else home.unlink()
    assert world.purge() is not None
    assert contents_of(home) == whole
    world.check()


def contents_of(path: Path) -> list[bytes]:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [file.read_bytes() for file in files]


def test_the_same_bytes_in_its_place(world: World, past: Past) -> None:
    run = world.apply(world.plan()).run
    aside = world.folder / ".reclaim/quarantine" / run / world.write.path(past.old[0])
    shutil.copy2(aside, world.folder / world.write.path(past.old[0]))
    world.write.label("again", past.old[0])
    purged(world)
    assert world.aside() == set()
    assert world.there() == past.live | {past.old[0]}
    world.check()


def test_undo_after_some_was_purged(world: World, past: Past) -> None:
    """Of a run that was cut off while it was purged the rest can be had back, and is named."""
    run = world.apply(world.plan(), removal=MOVE).run
    gone = world.folder / ".reclaim/quarantine" / run / world.write.path(past.old[0])
    gone.unlink()
    with pytest.raises(Partial) as partial:
        world.undo(run)
    waits = " ".join(partial.value.details["waits"])
    assert f"layer {past.old[0]}: it is not there" in waits
    assert f"layer {past.old[1]}: it needs {past.old[0]}, which is not there" in waits
    # What came back is young, and stands on what is missing: it stays, and holds up nobody.
    dead = world.write.layer(values=["dead"])
    path = world.folder / world.write.path(dead)
    os.utime(path, (0, 0))
    plan = world.plan()
    assert world.candidates(plan) == {f"store/{world.write.path(dead)}"}
    assert [one for one in plan.document.warnings if past.old[1] in one]
    world.apply(plan)
    world.age()
    assert world.purge(timedelta(0)) is not None
    world.apply(world.plan())
    assert world.there() == past.live


def test_of_several_runs_children_go_first_in_each(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one run has aside needs what another has: who is only needed is not known for that."""
    write = world.write
    for number in range(7):
        write.label(f"keep {number}", write.layer(values=[str(number)]))
    base = write.layer(values=["base"])
    middle = write.layer(base)
    top, other = write.layer(middle), write.layer(middle)
    world.age()
    first = world.plan()
    world.clock.advance(minutes=5)
    lease = world.store().take_lease(top, holder="a reader")
    assert world.apply(world.plan()).summary()["objects"] == 1
    assert world.aside() == {other}
    world.store().release_lease(lease.id)
    world.clock.advance(minutes=5)
    with taking_what_others_need():
        world.apply(first)
    assert world.aside() == {base, middle, top, other}
    gone = []
    delete = LayerView._delete

    def noted(self: LayerView, address: str) -> None:
        gone.append(layer_of(address))
        delete(self, address)

    monkeypatch.setattr(LayerView, "_delete", noted)
    purged(world)
    order = [one for one in gone if one in (base, middle, top)]
    assert order == [top, middle, base]


class Died(BaseException):
    """The process is gone."""


def half_applied(world: World) -> tuple[str, SnapshotId, SnapshotId]:
    """A run that died when it had taken the rollup files; then the layer was labelled again."""
    write = world.write
    for number in range(9):
        write.label(f"keep {number}", write.layer(values=[str(number)]))
    layer = write.layer(write.layer(values=["base"]))
    rollup = write.rollup(layer)
    world.age()
    plan = world.plan()

    def die() -> None:
        raise Died

    with pytest.raises(Died):
        world.apply(plan, step=At("sweep", die, nth=2))
    assert world.aside() == {layer}
    world.clock.advance(hours=1)
    world.write.label("again", layer)
    return plan.place.prefix.split("/")[-2], layer, rollup


def applied_again(world: World, run: str) -> None:
    world.apply(WrittenPlan(Place(*world.store().place(run)), None))  # type: ignore[arg-type]


def test_an_old_rollup_file_does_not_come_back_without_its_rollup(world: World) -> None:
    run, layer, rollup = half_applied(world)
    applied_again(world, run)
    assert rollup in world.aside()
    purged(world)
    assert world.aside() == set()
    assert rollup not in world.there()
    assert world.contents().layers[layer].rollup is None
    world.check()
    world.plan()


@pytest.mark.parametrize("undone", [False, True])
def test_a_newer_rollup_file_stays(world: World, undone: bool) -> None:
    run, layer, rollup = half_applied(world)
    newer = world.write.rollup(layer)
    applied_again(world, run)
    if undone:
        world.undo(run)
        assert rollup in world.there()
    else:
        purged(world)
        assert rollup not in world.there()
    assert world.aside() == set()
    assert world.contents().layers[layer].rollup == newer
    world.check()
    world.plan()


def test_a_rollup_file_alone_is_no_parent(world: World) -> None:
    """Undo says which layers cannot be loaded, also where a rollup file is all that is left."""
    write = world.write
    write.label("keep", write.layer(values=["x"]))
    base = write.layer(values=["base"])
    write.rollup(base)
    child = write.layer(base)
    write.label("later", child)
    world.age()
    write.unlabel("later")
    lease = world.store().take_lease(base, holder="a reader")
    run = world.apply(world.plan(allowed_fraction=1.0)).run
    assert world.aside() == {child}
    world.store().release_lease(lease.id)
    (world.folder / write.path(base)).unlink()
    told = world.undo(run)
    assert [line for line in told.left if child in line and base in line]
