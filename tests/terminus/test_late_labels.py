"""Labels that appear while a purge deletes: read once more before each page, so nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from reclaim.engine.tasks import deleting
from reclaim.errors import Partial, ReclaimError
from reclaim.model import SnapshotId
from reclaim.run.purge.purge import Purged, purge
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine
from reclaim.run_record import PURGE
from reclaim.stores.base import HeldLock
from reclaim.stores.terminus.held import HeldTerminus
from reclaim.testing.faults import FaultyStorage
from tests.support.soak import SOAK
from tests.support.terminus import TerminusDatabase
from tests.terminus.test_between import Once
from tests.terminus.world import At, Frozen, Past, World, bury, stepped

WEEK = MoveToQuarantine().keep
LIMIT = 400
"""More steps than a purge has."""


@pytest.fixture
def past(world: World) -> Past:
    return bury(world)


def purge_stepping(world: World, step: Callable[[str], None]) -> None:
    """A purge of which every task, call of the store and request for a file is a step.

    But not the deletes of a page: labels were read right before the first of them.
    """

    def asked(call: str, address: str) -> None:
        if call != "delete":
            step(f"{call} {address}")

    storage = FaultyStorage(world.storage, asked)
    store = stepped(world.store(lambda _: storage), step)
    purge(store, world.engine(step, storage), opener=world.opener(storage))


def test_a_label_at_each_step_of_a_purge(
    world: World, past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layer that is there with all that it needs when it is labelled is there afterwards."""
    # So that there is more than one page.
    monkeypatch.setattr(deleting, "PAGE", 2)
    database = TerminusDatabase(world.write, "admin|db")
    for number in range(2):
        database.commit([f"value {number}"])
    tip = database.meta[-1]
    database.delete()
    world.age()
    world.apply(world.plan(allowed_fraction=1.0))
    world.clock.advance(WEEK)
    every = {*database.data, *database.commits, *database.meta}
    assert every <= world.aside()
    frozen = Frozen(world)
    whole = 0
    for nth in range(1, LIMIT, 1 if SOAK else 3):
        frozen.thaw()
        there: list[bool] = []

        def label(there: list[bool] = there) -> None:
            there.append(every <= world.aside() | world.there())
            world.write.label("admin|db", tip)

        step = Once(nth, label)
        try:
            purge_stepping(world, step)
        except ReclaimError:
            assert step.done
        if not step.done:
            break
        if there[0]:
            whole += 1
            # What did not come back by itself comes back with the next purge.
            world.purge()
            assert every <= world.there(), nth
            world.check()
    else:
        pytest.fail("there are more steps than the test goes through")
    assert whole > (50 if SOAK else 20)


def test_a_label_on_a_new_layer_during_a_long_purge(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parent is in quarantine, and no label names that: it comes back within a quarter hour."""
    monkeypatch.setattr(deleting, "PAGE", 1)
    line = set_line_aside(world)
    child: list[SnapshotId] = []

    def label() -> None:
        child.append(world.write.layer(line[9], values=["new"]))
        world.write.label("new", child[0])

    done = purge_slowly(world, label)
    assert done is not None
    # Children go first, and none goes for longer than what the first wave may take beyond that.
    assert {*line[:10], *child} <= world.there()
    assert done.summary()["rescued"] == 10
    assert done.summary()["objects"] == 31
    assert world.aside() == set()
    world.check()


def test_a_purge_that_stops_between_waves_tells_what_it_deleted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deleting, "PAGE", 1)
    line = set_line_aside(world)

    def label() -> None:
        world.write.label("new", world.write.layer(line[-1], values=["new"]))

    with pytest.raises(Partial, match=f"the layer {line[-1]} is missing"):
        purge_slowly(world, label)
    gone = len(line) - len(world.aside())
    [told] = [run.counts for run in world.store().runs() if run.kind == PURGE]
    assert 0 < gone == told.objects
    assert told.bytes > 0


def set_line_aside(world: World) -> list[SnapshotId]:
    """A line of layers that is in quarantine for as long as it has to be."""
    write = world.write
    for number in range(9):
        write.label(f"keep {number}", write.layer(values=[str(number)]))
    line = [write.layer(values=["base"])]
    for number in range(40):
        line.append(write.layer(line[-1], values=[str(number)]))
    world.age()
    world.apply(world.plan())
    assert world.aside() == set(line)
    world.clock.advance(WEEK)
    return line


def purge_slowly(world: World, first: Callable[[], None]) -> Purged | None:
    """A purge of which each delete takes a minute; something is done with the first."""
    held: list[HeldLock] = []
    deletes = 0

    def pass_time(call: str, address: str) -> None:
        nonlocal deletes
        if call == "delete" and "/quarantine/" in address:
            world.clock.advance(minutes=1)
            held[0].renew()
            deletes += 1
            if deletes == 1:
                first()

    storage = FaultyStorage(world.storage, pass_time)
    store = world.store(lambda _: storage)
    take = store.lock

    @contextmanager
    def remembered(run_id: str) -> Iterator[HeldTerminus]:
        with take(run_id) as handle:
            held.append(handle.lock)
            yield handle

    store.lock = remembered  # type: ignore[method-assign]
    return purge(store, world.engine(storage=storage), opener=world.opener(storage))


def test_a_label_on_other_bytes_while_it_is_purged(world: World, past: Past) -> None:
    """The bytes in its place are compared although it was dead when layers were marked."""
    run = world.apply(world.plan()).run
    path = world.write.path(past.old[0])
    good = (world.folder / ".reclaim/quarantine" / run / path).read_bytes()
    bad = good[:-1] + bytes([good[-1] ^ 1])
    world.clock.advance(WEEK)

    def replace() -> None:
        (world.folder / path).write_bytes(bad)
        world.write.label("late", past.old[0])

    late = At("after needed", replace)
    with pytest.raises(Partial, match="the label late names its layer"):
        world.purge(store=stepped(world.store(), late))
    assert late.done
    assert (world.folder / ".reclaim/quarantine" / run / path).read_bytes() == good


def test_a_label_while_an_apply_deletes_at_once(world: World, past: Past) -> None:
    """The same holds without a quarantine: what a label names is not deleted."""
    plan = world.plan()
    late = At("sweep layer", partial(world.write.label, "late", past.old[1]))
    with pytest.raises(Partial, match="could not be deleted"):
        world.apply(plan, removal=DELETE, step=late)
    assert {past.old[0], past.old[1]} <= world.there()
