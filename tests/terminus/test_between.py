"""A server that does one thing while a run is at one step, at each of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.support.terminus import TerminusDatabase
from tests.terminus.world import Frozen, World, bury, stepped


def squash(database: TerminusDatabase) -> None:
    """One graph takes the place of another, which kept everything until now."""
    database.commit(["late"])
    database.squash()


def chain(database: TerminusDatabase) -> None:
    for _ in range(2):
        database.commit(["late"])


def roll_up(database: TerminusDatabase) -> None:
    database.roll_up()
    database.roll_up_commits()


def delete(database: TerminusDatabase) -> None:
    database.delete()


class Once:
    """Does something at the nth step."""

    def __init__(self, nth: int, work: Callable[[], object]) -> None:
        self._left = nth
        self._work = work

    def __call__(self, _step: str) -> None:
        self._left -= 1
        if self._left == 0:
            self._work()

    @property
    def done(self) -> bool:
        return self._left <= 0


@pytest.mark.parametrize("work", [squash, chain, roll_up, delete])
def test_at_each_step_of_plan_and_apply(
    world: World, work: Callable[[TerminusDatabase], None]
) -> None:
    past = bury(world)
    database = TerminusDatabase(world.write, "admin|db")
    for number in range(2):
        database.commit([f"value {number}"])
    world.age()
    names = (list(database.data), list(database.commits), list(database.meta))
    frozen = Frozen(world)
    for nth in range(1, 400, 3):
        frozen.thaw()
        database.data, database.commits, database.meta = (list(one) for one in names)
        step = Once(nth, partial(work, database))
        store = stepped(world.store(), step)
        world.apply(world.plan(step=step, store=store), step=step, store=store)
        world.check()
        assert work is delete or world.aside() <= past.dead, nth
        if not step.done:
            assert nth > 40
            return
    pytest.fail("there are more steps than the test goes through")
