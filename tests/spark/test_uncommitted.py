"""Runs on uncommitted data: Spark and the oracle engine, step by step, over random histories."""

from __future__ import annotations

import random

import pytest

from reclaim.run.uncommitted.scope import Mode
from tests.collect.uncommitted_histories import Seen, live_and_run
from tests.soak import SOAK
from tests.spark.test_random import PairedWorld, tmp_path, world

__all__ = ["tmp_path", "world"]

SEEDS = range(100 if SOAK else 1)
LIMITS = {"joined": (0, 0), "looked up": (10**9, 0), "on the driver": (10**9, 10**6)}


@pytest.mark.parametrize("limits", LIMITS if SOAK else ["on the driver"])
@pytest.mark.parametrize("seed", SEEDS)
def test_both_find_the_same(world: PairedWorld, seed: int, limits: str) -> None:
    lookup, driver_rows = LIMITS[limits]
    world.spark._finder._lookup_limit, world.spark._finder.driver_row_limit = lookup, driver_rows
    seen = Seen()
    live_and_run(world, random.Random(seed), seen, rounds=1, compare=False)
    assert seen.optimized >= 1
    assert seen.taken >= 1


def test_each_way_of_comparing(world: PairedWorld) -> None:
    """One optimized plan, by keys that every task loads, and by a join."""
    main = world.repo.branch("main")
    for path in ("a", "b", "c"):
        main.put(path, path.encode())
    main.commit("first")
    main.put("x", b"staged")
    world.backend.close()
    world.age()
    world.apply(world.uncommitted(Mode.CLEAN))
    main = world.other().branch("main")
    main.reset()
    main.put("y", b"new")
    main.reset()
    world.other().create_branch("dead", "main").put("a", b"other")
    world.other().branch("dead").commit("dies")
    world.other().delete_branch("dead")
    world.backend.close()
    world.age()
    found = []
    for lookup, driver_rows in LIMITS.values():
        finder = world.spark._finder
        finder._lookup_limit, finder.driver_row_limit = lookup, driver_rows
        plan = world.uncommitted(Mode.OPTIMIZED, allowed_fraction=1.0)
        assert plan.document.uncommitted is not None
        assert plan.document.uncommitted.mode == Mode.OPTIMIZED
        found.append({one for one in world.candidates(plan) if "/runs/" not in one})
    assert found[0] == found[1] == found[2]
    assert len(found[0]) >= 4
