"""An engine that is started late: after what is refused without it, and before a lock is taken."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from reclaim.engine.base import Engine
from reclaim.engine.local.engine import LocalEngine
from reclaim.errors import ClockSkew, PlanRefused, ReclaimError
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.plan.planning import PlanOptions, make_plan
from reclaim.run.purge.purge import purge
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.run.undo.undo_run import undo_run
from reclaim.testing import ClockedStorage
from tests.collect.helpers.world import World, bury, opening


class Starting(LocalEngine):
    """Notes whether the store was locked when the engine was started, or used without a start."""

    def __init__(self, world: World) -> None:
        opener = opening(world.storage)
        super().__init__(opener, clock=world.clock, step=lambda _task: self.start())
        self._world = world
        self._started = False
        self.locked: list[bool] = []

    def start(self) -> None:
        if self._started:
            return
        self._started = True
        try:
            with self._world.store().lock("another"):
                self.locked.append(False)
        except ReclaimError:
            self.locked.append(True)


@pytest.fixture
def starting(local: World) -> Starting:
    bury(local)
    return Starting(local)


Act = Callable[[Engine], object]


def _acts(world: World) -> list[Act]:
    """A plan, an apply to quarantine, an undo, another apply, a purge."""
    opener = opening(world.storage)
    removal = MoveToQuarantine(timedelta(0))
    plans = []

    def plan(engine: Engine) -> None:
        # What an undo brought back is young.
        world.age()
        options = PlanOptions(margins=world.margins)
        plans.append(make_plan(world.store(), engine, options, opener=opener))

    def apply(engine: Engine) -> None:
        made = plans[-1]
        digest = made.document.digest
        done = apply_plan(
            world.store(), engine, made.place, digest=digest, removal=removal, opener=opener
        )
        assert done.summary()["objects"]

    return [
        plan,
        apply,
        lambda engine: undo_run(world.store(), engine, plans[-1].document.run, opener=opener),
        plan,
        apply,
        lambda engine: purge(world.store(), engine, opener=opener),
    ]


def test_no_lock_is_held_while_an_engine_starts(local: World) -> None:
    bury(local)
    for act in _acts(local):
        starting = Starting(local)
        act(starting)
        assert starting.locked == [False]


def test_a_plan_that_is_refused_by_its_clock_starts_none(local: World, starting: Starting) -> None:
    assert isinstance(local.storage, ClockedStorage)
    local.storage.skew = timedelta(hours=1)
    with pytest.raises(ClockSkew):
        make_plan(local.store(), starting, opener=opening(local.storage))
    assert not starting.locked


def test_an_apply_that_is_refused_by_its_plan_starts_none(local: World, starting: Starting) -> None:
    plan = local.plan()
    with pytest.raises(PlanRefused):
        apply_plan(
            local.store(),
            starting,
            plan.place,
            digest="0" * 64,
            opener=opening(local.storage),
        )
    assert not starting.locked
