"""Runs on uncommitted data: Spark and the oracle engine, step by step, over random histories."""

from __future__ import annotations

import random

import pytest

from tests.collect.uncommitted_histories import Seen, live_and_run
from tests.soak import SOAK
from tests.spark.test_random import PairedWorld, tmp_path, world

__all__ = ["tmp_path", "world"]

SEEDS = range(100 if SOAK else 1)


@pytest.mark.parametrize("lookup", [0, 10**9], ids=["joined", "looked up"])
@pytest.mark.parametrize("seed", SEEDS)
def test_both_find_the_same(world: PairedWorld, seed: int, lookup: int) -> None:
    world.spark._finder._lookup_limit = lookup
    seen = Seen()
    live_and_run(world, random.Random(seed), seen, rounds=2)
    assert seen.optimized >= 1
