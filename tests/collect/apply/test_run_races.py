"""Races with runs on PostgreSQL, by name, with connections that really work at once.

Those with the reaper are in ``tests/catalog/test_reaper_races.py``. ``RECLAIM_SOAK=1`` makes each
race run for thousands of rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol

import pytest

from reclaim.stores.observation import Margins
from reclaim.testing import FakeClock
from tests.collect.helpers.closed_partition import ClosedPartition
from tests.collect.helpers.dying_range import DyingRange
from tests.collect.helpers.stale_lock import StaleLock
from tests.collect.helpers.world import World
from tests.conftest import Backend
from tests.support.memory import folder_in_memory
from tests.support.rounds import Orders
from tests.support.servers import PostgreSQL
from tests.support.soak import SOAK

pytestmark = pytest.mark.repeats(first=1)

ROUNDS = 5_000 if SOAK else 100
ROUNDS_OF_A_WORLD = 500
"""After so many a world has grown so large that another is made."""


class Race(Protocol):
    """Two sides that meet in a world."""

    def batch(self, orders: Orders) -> int:
        """Run some rounds, and check what became of them; returns how many."""


RACES: dict[str, Callable[[World], Race]] = {
    "stale lock": StaleLock,
    "revert into a dying range": DyingRange,
    "a stalled writer after its partition was closed": ClosedPartition,
}


@contextmanager
def made_world(postgres: PostgreSQL) -> Iterator[World]:
    with folder_in_memory() as folder:
        location = postgres.new_database()
        backend = Backend("server", location, folder.as_uri(), FakeClock(), postgres=postgres)
        world = World.make(backend)
        # Nothing must rest on the margin, which is only a second belt.
        world.margins = Margins(objects=timedelta(0))
        try:
            yield world
        finally:
            backend.close()


@pytest.mark.parametrize("name", RACES)
def test_a_race(postgres: PostgreSQL, name: str) -> None:
    orders = Orders()
    rounds = 0
    while rounds < ROUNDS:
        with made_world(postgres) as world:
            race = RACES[name](world)
            until = min(ROUNDS, rounds + ROUNDS_OF_A_WORLD)
            while rounds < until:
                rounds += race.batch(orders)
    orders.check()
