"""Clocks of holders, runs and the storage that differ by as much as they may."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from reclaim.clock import SKEW, Clock
from reclaim.engine.local.engine import LocalEngine
from reclaim.errors import ClockSkew, LeaseLapsed
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.plan.planning import PlanOptions, make_plan
from reclaim.run.sweep.removal import DELETE
from reclaim.stores.sidecar.leases import EARLY, LENGTH
from reclaim.stores.terminus.store import TerminusStore
from tests.terminus.world import Past, World, bury

MINUTE = timedelta(minutes=1)


@pytest.fixture
def past(world: World) -> Past:
    return bury(world)


@dataclass(frozen=True)
class Skewed:
    """A clock that is ahead of another one, or behind it."""

    clock: Clock
    by: timedelta

    def now(self) -> datetime:
        return self.clock.now() + self.by


def store_of(world: World, skew: timedelta) -> TerminusStore:
    """The store, as a machine sees it whose clock differs from the storage's."""
    return TerminusStore(world.folder, clock=Skewed(world.clock, skew), storage=world.storage)


def collect(world: World, skew: timedelta) -> None:
    """Delete at once what is dead, on a machine whose clock differs from the storage's."""
    store, storage = store_of(world, skew), world.storage
    opener = world.opener(storage)
    engine = LocalEngine(lambda _url: storage, clock=store.clock)
    plan = make_plan(store, engine, PlanOptions(margins=world.margins), opener=opener)
    apply_plan(store, engine, plan.place, removal=DELETE, opener=opener)


# Before the end of the lease, by the storage's clock, and after it.
@pytest.mark.parametrize("late", [-3, 3])
@pytest.mark.parametrize("holder", [-SKEW, SKEW], ids=["holder behind", "holder ahead"])
@pytest.mark.parametrize("run", [-SKEW, SKEW], ids=["run behind", "run ahead"])
def test_who_can_renew_has_lost_nothing(
    world: World, past: Past, run: timedelta, holder: timedelta, late: int
) -> None:
    store = store_of(world, holder)
    lease = store.take_lease(past.old[-1], holder="reader")
    world.clock.advance(LENGTH + late * MINUTE)
    collect(world, run)
    try:
        store.renew_lease(lease)
    except LeaseLapsed:
        return
    assert set(past.old) <= world.there()


def test_the_last_moment_to_renew(world: World, past: Past) -> None:
    """Whoever is late leaves the lease as it is: it was not renewed for a moment either."""
    store = world.store()
    lease = store.take_lease(past.old[-1], holder="reader")
    world.clock.advance(LENGTH - SKEW - MINUTE)
    lease = store.renew_lease(lease)
    world.clock.advance(LENGTH - SKEW)
    with pytest.raises(LeaseLapsed, match="cannot be renewed"):
        store.renew_lease(lease)
    assert store.leases() == [(lease, True)]


@pytest.mark.parametrize("run", [-SKEW, SKEW], ids=["run behind", "run ahead"])
def test_who_believes_in_its_lease_has_lost_nothing(
    world: World, past: Past, run: timedelta
) -> None:
    with store_of(world, timedelta(0)).lease(past.old[-1]) as held:
        world.clock.advance(LENGTH - EARLY - MINUTE)
        held.check()
        collect(world, run)
        assert set(past.old) <= world.there()
        world.clock.advance(minutes=1)
        with pytest.raises(LeaseLapsed):
            held.check()
        collect(world, run)
        assert set(past.old) <= world.there()


@pytest.mark.parametrize("minutes", [-6, 6])
def test_a_holder_whose_clock_is_wrong(world: World, past: Past, minutes: int) -> None:
    store = store_of(world, minutes * MINUTE)
    with pytest.raises(ClockSkew, match="clock says"):
        store.take_lease(past.old[-1], holder="reader")
    assert store.leases() == []
    lease = world.store().take_lease(past.old[-1], holder="reader")
    with pytest.raises(ClockSkew):
        store.renew_lease(lease)


def test_a_lease_ends_for_runs_as_well(world: World, past: Past) -> None:
    world.store().take_lease(past.old[-1], holder="reader")
    world.clock.advance(LENGTH + SKEW - MINUTE)
    collect(world, timedelta(0))
    assert set(past.old) <= world.there()
    world.clock.advance(minutes=1)
    collect(world, timedelta(0))
    assert world.there() == past.live
