"""Plans of lifecycle rules over random histories: each takes what the oracle says.

``RECLAIM_SOAK=1`` makes it run for long.
"""

from __future__ import annotations

import random

import pytest

from tests.collect.helpers.world import World
from tests.lifecycle.random_rules import Seen, live_by_rules
from tests.support.soak import SOAK

SEEDS = range(400 if SOAK else 2)
SEEN = Seen()


@pytest.mark.parametrize("seed", SEEDS)
def test_what_goes_is_what_the_oracle_says(local: World, seed: int) -> None:
    live_by_rules(local, random.Random(seed), SEEN, rounds=6 if SOAK else 4)


def test_something_went_was_held_and_was_carried() -> None:
    assert SEEN.went
    assert SEEN.held
    assert SEEN.carried
    assert SEEN.incremental
    assert SEEN.unread
