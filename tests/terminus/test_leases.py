"""Leases beside a store: what they hold, how they end, and that runs and holders see each other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest

from reclaim.clock import SKEW
from reclaim.errors import Gone, InvalidInput, LeaseLapsed, NotFound, ReclaimError
from reclaim.model import SnapshotId
from reclaim.run.sweep.removal import DELETE, Removal
from reclaim.stores.sidecar import leases as leasing
from reclaim.stores.sidecar.condemned import Condemnation, CondemnedLists
from reclaim.stores.sidecar.leases import SidecarLeases
from reclaim.stores.terminus.store import TerminusStore
from reclaim.testing.faults import FaultyStorage
from tests.terminus.world import MOVE, STEPS, At, Past, World, bury, stepped

pytestmark = pytest.mark.repeats(first=4)


@pytest.fixture
def past(world: World) -> Past:
    return bury(world)


def test_a_lease_keeps_what_it_needs(world: World, past: Past) -> None:
    store = world.store()
    lease = store.take_lease(past.old[1], holder="reader", length=timedelta(days=1))
    assert store.leases() == [(lease, True)]
    world.apply(world.plan())
    assert world.there() == past.live | {*past.old[:2], past.old_rollup}
    world.check()
    store.release_lease(lease.id)
    assert store.leases() == []
    # What stood on it is in quarantine, and would come back with it.
    world.purge(timedelta(0))
    world.apply(world.plan())
    assert world.there() == past.live


def test_a_lease_keeps_what_is_named_in_data(world: World, past: Past) -> None:
    graph = world.write.layer(names=[past.old[-1]])
    world.age()
    world.store().take_lease(graph, holder="reader", length=timedelta(days=1))
    world.apply(world.plan())
    assert world.there() == past.live | {graph, *past.old, past.old_rollup}


def test_a_lapsed_lease_holds_nothing(world: World, past: Past) -> None:
    store = world.store()
    lease = store.take_lease(past.old[0], holder="reader", length=timedelta(hours=1))
    plan = world.plan()
    world.clock.advance(timedelta(hours=1) + SKEW)
    assert store.leases() == [(lease, False)]
    with pytest.raises(LeaseLapsed, match="lapsed"):
        store.renew_lease(lease)
    # Planned while it held, and held no more: only the next plan has it.
    world.apply(plan)
    world.purge(timedelta(0))
    world.apply(world.plan())
    assert world.there() == past.live


def test_a_renewed_lease_goes_on(world: World, past: Past) -> None:
    store = world.store()
    lease = store.take_lease(past.old[0], holder="reader", length=timedelta(hours=2))
    for _ in range(3):
        world.clock.advance(minutes=90)
        lease = store.renew_lease(lease)
        assert lease.valid_at(world.clock.now() + timedelta(hours=1))
    world.apply(world.plan())
    assert past.old[0] in world.there()
    store.release_lease(lease.id)
    with pytest.raises(LeaseLapsed, match="was released"):
        store.renew_lease(lease)
    with pytest.raises(NotFound):
        store.release_lease(lease.id)


def test_a_lease_taken_after_the_plan_wins(world: World, past: Past) -> None:
    plan = world.plan()
    world.store().take_lease(past.old[-1], holder="reader")
    done = world.apply(plan)
    assert done.dropped == 5
    assert world.there() == past.live | {*past.old, past.old_rollup}
    world.check()


def test_the_context_manager(world: World, past: Past) -> None:
    store = world.store()
    with store.lease(past.old[-1], holder="job") as held:
        [(lease, valid)] = store.leases()
        assert (lease.snapshot, lease.holder, valid) == (past.old[-1], "job", True)
        world.apply(world.plan())
        assert set(past.old) <= world.there()
        world.clock.advance(leasing.LENGTH / 2)
        held.renew()
        world.clock.advance(leasing.LENGTH / 2)
        held.check()
        world.clock.advance(leasing.LENGTH / 2)
        with pytest.raises(LeaseLapsed, match="in time"):
            held.check()
    assert store.leases() == []
    world.apply(world.plan())
    assert world.there() == past.live


def test_a_lease_is_renewed_in_the_background(
    world: World, past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leasing, "REFRESH", timedelta(milliseconds=5))
    renewed = threading.Event()
    whole = SidecarLeases.renew

    def renew(*args: object) -> object:
        found = whole(*args)  # type: ignore[arg-type]
        renewed.set()
        return found

    monkeypatch.setattr(SidecarLeases, "renew", renew)
    with world.store().lease(past.old[0]) as held:
        world.clock.advance(leasing.LENGTH * 0.9)
        assert renewed.wait(10)
        renewed.clear()
        assert renewed.wait(10)
        world.clock.advance(leasing.LENGTH / 2)
        held.check()


def test_what_is_no_layer(world: World, past: Past) -> None:
    store = world.store()
    with pytest.raises(InvalidInput):
        store.take_lease("../../etc", holder="reader")
    with pytest.raises(Gone, match="there is no layer"):
        store.take_lease("0" * 40, holder="reader")
    assert store.leases() == []


def test_what_a_run_has_taken_cannot_be_held(world: World, past: Past) -> None:
    store = world.store()
    run = world.apply(world.plan()).run
    with pytest.raises(Gone, match=run):
        store.take_lease(past.old[-1], holder="reader")
    # One that came since and stands on what went, or names it.
    for made in (world.write.layer(past.old[-1]), world.write.layer(names=[past.old[0]])):
        with pytest.raises(Gone, match=run):
            store.take_lease(made, holder="reader")
    assert store.leases() == []


def condemned(world: World, layer: SnapshotId) -> None:
    lists = CondemnedLists(world.storage, "store/.reclaim/condemned/")
    lists.write("run", {Condemnation.PROVISIONAL: {layer: "a rule"}})


@pytest.mark.parametrize("which", ["itself", "an ancestor", "a rollup", "named in data"])
def test_what_needs_something_condemned_cannot_be_held(
    world: World, past: Past, which: str
) -> None:
    layer, lost = {
        "itself": (past.old[0], past.old[0]),
        "an ancestor": (past.old[2], past.old[0]),
        "a rollup": (past.old[2], past.old_rollup),
        "named in data": (world.write.layer(names=[past.old[2]]), past.old[0]),
    }[which]
    store = world.store()
    before = store.take_lease(layer, holder="before")
    condemned(world, lost)
    with pytest.raises(Gone, match="is being removed by run run"):
        store.take_lease(layer, holder="reader")
    assert store.leases() == [(before, True)]
    if layer == lost:
        with pytest.raises(LeaseLapsed, match="being removed"):
            store.renew_lease(before)


@pytest.mark.parametrize("removal", [DELETE, MOVE], ids=["deletes", "sets aside"])
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("name", [name for name in STEPS if name not in ("restore", "forget")])
def test_a_run_and_a_holder_see_each_other(
    world: World, past: Past, removal: Removal, side: str, name: str
) -> None:
    """Whenever a lease is taken: either it is refused, or all that it holds stays."""
    plan = world.plan()
    wanted = past.old[-1]

    def hold() -> None:
        try:
            world.store().take_lease(wanted, holder="reader")
            held.append(wanted)
        except Gone:
            refused.append(wanted)

    held: list[SnapshotId] = []
    refused: list[SnapshotId] = []
    step = At(f"{side} {name}", hold)
    world.apply(plan, store=stepped(world.store(), step), removal=removal)
    assert len(held) + len(refused) <= 1
    assert step.done == bool(held or refused)
    assert (set(past.old) <= world.there()) == bool(held)
    world.check()


class Asleep:
    """Lets a whole apply happen before the nth call of a holder."""

    def __init__(self, nth: int, work: Callable[[], object]) -> None:
        self._left = nth
        self._work = work

    def __call__(self, _call: str, _address: str) -> None:
        self._left -= 1
        if self._left == 0:
            self._work()


@pytest.mark.parametrize("removal", [DELETE, MOVE], ids=["deletes", "sets aside"])
def test_a_holder_that_sleeps_at_each_of_its_steps(
    world: World, past: Past, removal: Removal
) -> None:
    """A whole apply fits between any two calls of a holder, and one still sees the other."""
    outcomes = []
    for nth in range(1, 9):
        base = world.write.layer(values=[f"base {nth}"])
        wanted = world.write.layer(base, values=[f"sleeper {nth}"])
        world.age()
        asleep = Asleep(nth, partial(world.apply, world.plan(), removal=removal))
        try:
            lease = sleepy(world, asleep).take_lease(wanted, holder="sleeper")
        except Gone:
            assert wanted not in world.there()
            outcomes.append("refused")
        else:
            assert wanted in world.there()
            world.check()
            world.store().release_lease(lease.id)
            outcomes.append("held")
    assert set(outcomes) == {"refused", "held"}


def sleepy(world: World, asleep: Asleep) -> TerminusStore:
    return world.store(lambda storage: FaultyStorage(storage, asleep))


def test_a_holder_that_sleeps_between_the_lists_and_the_layers(world: World, past: Past) -> None:
    """What was deleted and taken off the lists meanwhile is missed when it is looked for."""
    plan = world.plan()
    whole = CondemnedLists.all
    with pytest.MonkeyPatch.context() as patch:

        def read(lists: CondemnedLists) -> object:
            found = whole(lists)
            patch.undo()
            world.store().release_lease(world.store().leases()[0][0].id)
            world.apply(plan, removal=DELETE)
            return found

        patch.setattr(CondemnedLists, "all", read)
        with pytest.raises(Gone, match="there is no layer"):
            world.store().take_lease(past.old[-1], holder="sleeper")


def test_a_lease_that_is_given_back_while_leases_are_listed(world: World, past: Past) -> None:
    store = world.store()
    lease = store.take_lease(past.main[0], holder="reader")

    def fault(call: str, address: str) -> None:
        if call == "get" and "/leases/" in address:
            world.store().release_lease(lease.id)

    looking = world.store(lambda storage: FaultyStorage(storage, fault))
    assert looking.leases() == []


def test_a_storage_that_fails_leaves_no_lease(world: World, past: Past) -> None:
    def fault(call: str, address: str) -> None:
        if call == "list" and "/condemned" in address:
            raise NotFound("gone")

    store = world.store(lambda storage: FaultyStorage(storage, fault))
    with pytest.raises(ReclaimError):
        store.take_lease(past.main[0], holder="reader")
    assert world.store().leases() == []
