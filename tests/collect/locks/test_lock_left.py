"""A run that ends while its tasks may still be at work leaves the lock to them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from reclaim.errors import Conflict, Partial
from reclaim.lock import REQUEST
from reclaim.model import instant_text
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.run.sweep.sweep import FIRST_WAVE
from tests.collect.helpers.detached import DetachedEngine, apply, purge_all, undo
from tests.collect.helpers.world import World, bury

FREE_AFTER = FIRST_WAVE + REQUEST + REQUEST


def check_locked(world: World, run: str, *works: Callable[[], object]) -> None:
    """Nobody gets the lock before the tasks must have ended, and everybody is told when."""
    free_at = world.clock.now() + FREE_AFTER
    for work in works:
        with pytest.raises(Conflict) as caught:
            work()
        error = caught.value
        assert error.message == (
            f"run {run} has ended, and may still be working on executors until {free_at:%F %T} UTC"
        )
        assert error.details == {"run": run, "free_at": instant_text(free_at)}
        assert datetime.fromisoformat(error.details["free_at"]) == free_at
    world.clock.set(free_at)


def test_an_undo_waits_for_the_tasks_of_an_apply(world: World) -> None:
    """Otherwise they would set aside again what it brings back, and break what it restored."""
    past = bury(world)
    plan, other = world.plan(), world.plan()
    before = world.there()
    engine = DetachedEngine(world, "data")
    with pytest.raises(Partial):
        apply(world, engine, plan, MoveToQuarantine())
    engine.go_on()
    assert world.there() < before
    check_locked(
        world,
        plan.document.run,
        lambda: world.undo(plan.document.run),
        lambda: world.apply(plan, removal=MoveToQuarantine()),
        lambda: world.apply(other),
    )
    engine.go_on()
    assert world.undo(plan.document.run).left == ()
    engine.go_on()
    assert world.there() == before
    repo = world.other()
    assert {one.id for one in repo.log(past.second)} > {past.first, past.second}
    world.check()


def test_the_tasks_stop_before_the_lock_is_free(local: World) -> None:
    bury(local)
    plan = local.plan()
    engine = DetachedEngine(local, "data")
    with pytest.raises(Partial):
        apply(local, engine, plan)
    before = local.there()
    local.clock.advance(FIRST_WAVE)
    engine.go_on()
    assert local.there() == before
    local.clock.advance(REQUEST + REQUEST - timedelta(microseconds=1))
    with pytest.raises(Conflict):
        local.apply(plan)
    local.clock.advance(microseconds=1)
    local.apply(plan)
    local.check_swept(plan, before)


@pytest.mark.parametrize("error", [KeyboardInterrupt, TypeError, SystemExit])
def test_whatever_ends_a_wave(local: World, error: type[BaseException]) -> None:
    bury(local)
    plan = local.plan()
    with pytest.raises((Partial, KeyboardInterrupt, SystemExit)):
        apply(local, DetachedEngine(local, "range", error), plan)
    check_locked(local, plan.document.run, lambda: local.apply(plan))
    local.apply(plan)
    local.quiet()


def test_an_undo_and_a_purge_leave_it_too(local: World) -> None:
    bury(local)
    plan = local.plan()
    run = plan.document.run
    local.apply(plan, removal=MoveToQuarantine())
    with pytest.raises(Partial):
        undo(local, DetachedEngine(local, "quarantine"), run)
    check_locked(local, run, lambda: local.undo(run))
    with pytest.raises(Partial):
        purge_all(local, DetachedEngine(local, "quarantine"))
    purging = local.repo.runs()[0].id
    check_locked(local, purging, lambda: local.purge(timedelta(0)))
    local.purge(timedelta(0))
    local.check()


def test_an_engine_whose_tasks_have_ended_leaves_nothing(local: World) -> None:
    """Nothing runs any more when the call has failed: the next apply need not wait."""
    bury(local)
    plan = local.plan()

    class Ended(DetachedEngine):
        def ended(self) -> bool:
            return True

    with pytest.raises(Partial):
        apply(local, Ended(local, "data"), plan)
    local.apply(plan)
    local.quiet()
