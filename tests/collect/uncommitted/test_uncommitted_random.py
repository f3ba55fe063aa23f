"""Optimized runs over random histories: each takes what a clean one would, and leaves nothing.

``RECLAIM_SOAK=1`` makes it run for long.
"""

from __future__ import annotations

import random

import pytest

from tests.collect.helpers.uncommitted_histories import Seen, live_and_run
from tests.collect.helpers.world import World
from tests.support.soak import SOAK

SEEDS = range(400 if SOAK else 3)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_clean_run_after_an_optimized_one_finds_nothing(local: World, seed: int) -> None:
    seen = Seen()
    live_and_run(local, random.Random(seed), seen, rounds=4)
    assert seen.optimized >= 2
    assert seen.taken >= 1
