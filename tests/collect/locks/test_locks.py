"""One run at a time, and in time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from reclaim.catalog.collection import locks
from reclaim.engine.tasks import deleting
from reclaim.errors import Conflict, LockLost, OutOfTime, Partial
from reclaim.run_record import Phase
from reclaim.stores.catalog import CatalogStore, HeldRepository
from reclaim.testing.faults import FaultyStorage, Slow
from tests.collect.helpers.refusing import finishes, refused
from tests.collect.helpers.world import NAME, At, World, bury, stepped


def test_two_applies_at_once(world: World) -> None:
    bury(world)
    plan, another = world.plan(), world.plan()
    errors: list[Conflict] = []

    def second() -> None:
        for other in (plan, another):
            with pytest.raises(Conflict) as caught:
                world.apply(other)
            errors.append(caught.value)

    before = world.there()
    at = At("sweep data", second)
    world.apply(plan, step=at)
    assert at.done
    assert [error.exit_code for error in errors] == [4, 4]
    world.check_swept(plan, before)
    assert world.apply(another).summary()["objects"] == len(world.candidates(another))
    world.quiet()


class Held:
    """Remembers the lock that a store gave, to renew it as its thread would."""

    def __init__(self, inner: CatalogStore) -> None:
        self.inner = inner
        self.lock: locks.RepositoryLock | None = None
        take = inner.lock

        @contextmanager
        def remembered(run_id: str) -> Iterator[HeldRepository]:
            with take(run_id) as held:
                self.lock = held.lock
                yield held

        inner.lock = remembered  # type: ignore[method-assign]

    def pass_time(self, world: World, minutes: int) -> None:
        for _ in range(minutes):
            world.clock.advance(minutes=1)
            assert self.lock is not None
            self.lock.renew()


@pytest.mark.remote_values(point=["before promote"])
@pytest.mark.parametrize("point", ["after observe", "confirm", "before promote"])
def test_a_run_past_its_time_budget(world: World, point: str) -> None:
    """The leases that it has read may have changed; so it stops before the first delete."""
    bury(world)
    plan = world.plan()
    held = Held(world.store())
    at = At(point, lambda: held.pass_time(world, 16), nth=2 if point == "after observe" else 1)
    if point == "before promote":
        at = At("after release", lambda: held.pass_time(world, 16))
    with refused(world, OutOfTime, 6):
        world.apply(plan, step=at, store=stepped(held.inner, at))
    assert at.done
    finishes(world, plan)
    world.quiet()


def test_a_lock_that_is_lost_before_the_first_delete(world: World) -> None:
    bury(world)
    plan = world.plan()
    at = At("confirm", lambda: world.clock.advance(minutes=14))
    with refused(world, LockLost, 4):
        world.apply(plan, step=at)
    finishes(world, plan)


@pytest.mark.remote_values(kind=["data"])
@pytest.mark.parametrize("kind", ["data", "range", "metarange"])
def test_a_lock_that_is_lost_in_the_middle_of_the_sweep(world: World, kind: str) -> None:
    """Nothing is deleted after the deadline, whoever has the lock by then; the rest goes later."""
    bury(world)
    plan, another = world.plan(), world.plan()
    left: list[set[str]] = []

    def lose() -> None:
        world.clock.advance(minutes=12)
        left.append(world.there())

    before = world.there()
    at = At(f"sweep {kind}", lose)
    with pytest.raises((LockLost, Partial)) as caught:
        world.apply(plan, step=at)
    assert caught.value.exit_code in (4, 7)
    assert world.there() == left[0]
    assert Phase.DONE not in {run.phase for run in world.repo.runs()}
    world.check()
    world.apply(another)
    world.apply(plan)
    world.check_swept(plan, before)
    world.quiet()


def test_someone_else_takes_over_in_the_middle_of_the_sweep(world: World) -> None:
    bury(world)
    plan = world.plan()

    def take_over() -> None:
        world.clock.advance(minutes=12)
        world.apply(plan)

    before = world.there()
    with pytest.raises((LockLost, Partial)):
        world.apply(plan, step=At("sweep range", take_over))
    world.check_swept(plan, before)
    world.quiet()


def test_a_long_sweep_goes_in_waves(local: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page takes three minutes; waves get longer, and the lock is renewed between them."""
    monkeypatch.setattr(deleting, "PAGE", 1)
    bury(local)
    catalog = local.opened()
    for number in range(8):
        catalog.repository(NAME).branch("work").put(f"{number}", b"x")
    catalog.repository(NAME).branch("work").reset()
    catalog.close()
    local.age()
    plan = local.plan()
    slow = Slow(lambda: local.clock.advance(minutes=3), calls=("delete_page",))
    waves: list[str] = []
    before = local.there()
    local.apply(plan, step=waves.append, storage=FaultyStorage(local.storage, slow))
    local.check_swept(plan, before)
    assert len([one for one in local.candidates(plan) if "/branches/" in one]) == 11
    assert waves.count("sweep data") == 6
    local.quiet()
