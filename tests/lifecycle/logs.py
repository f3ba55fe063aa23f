"""Logs of a week beside data, and a rule by which the older ones go."""

from __future__ import annotations

from datetime import timedelta

from reclaim.run.plan.planning import WrittenPlan
from reclaim.stores.observation import Margins
from tests.collect.helpers.world import NAME, World
from tests.lifecycle.ruled import Rules, plan_rules
from tests.support.resting import Resting

LOGS: Rules = {"logs": {"prefix": "logs/", "days": 3}}
OLD = {f"logs/{day}" for day in range(5)}
"""The paths that go by the rule after a week."""

_weeks: dict[str, Resting] = {}
"""Weeks that were made before in this process, by the back end: a copy takes less time."""


def week(world: World) -> World:
    """A log and something else on each day of a week, in a world that nobody has touched.

    There are two branches beside main at the origin, and partitions are closed.
    """
    world.margins = Margins(objects=timedelta(0))
    backend = world.backend
    if backend.name not in _weeks:
        _fill(world)
        _weeks[backend.name] = Resting(backend)
    world.repo = _weeks[backend.name].restore(backend).repository(NAME)
    return world


def _fill(world: World) -> None:
    repo = world.repo
    for name in ("side", "spare"):
        repo.create_branch(name)
    main = repo.branch("main")
    for day in range(7):
        main.put(f"logs/{day}", f"log {day}".encode())
        main.put(f"data/{day}", f"data {day}".encode())
        main.commit(f"day {day}")
        world.clock.advance(days=1)


def planned(world: World, rules: Rules = LOGS) -> WrittenPlan:
    return plan_rules(week(world), rules)


def missing(world: World, ref: str = "main") -> set[str]:
    """The paths on a ref whose bytes are not there."""
    there = world.there()
    return {entry.path for entry in world.repo.branch(ref).entries() if entry.address not in there}
