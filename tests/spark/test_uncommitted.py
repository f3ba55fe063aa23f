"""Runs on uncommitted data: Spark and the local engine, step by step, over random histories."""

from __future__ import annotations

import random

import pytest

from reclaim.run.record.checkpoints import Mode
from tests.collect.helpers.uncommitted_histories import Seen, live_and_run
from tests.spark.test_random import PairedWorld, tmp_path, world
from tests.support.soak import SOAK

__all__ = ["tmp_path", "world"]

SEEDS = range(100 if SOAK else 1)
LIMITS = {"joined": (0, 0), "looked up": (10**9, 0), "on the driver": (10**9, 10**6)}


@pytest.mark.parametrize("limits", LIMITS if SOAK else ["on the driver"])
@pytest.mark.parametrize("seed", SEEDS)
def test_both_find_the_same(world: PairedWorld, seed: int, limits: str) -> None:
    lookup, driver_rows = LIMITS[limits]
    world.spark.lookup_limit, world.spark.driver_row_limit = lookup, driver_rows
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
    world.apply(world.uncommitted(Mode.FULL))
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
        world.spark.lookup_limit, world.spark.driver_row_limit = lookup, driver_rows
        plan = world.uncommitted(Mode.INCREMENTAL, allowed_fraction=1.0)
        assert plan.document.uncommitted is not None
        assert plan.document.uncommitted.mode == Mode.INCREMENTAL
        found.append({one for one in world.candidates(plan) if "/runs/" not in one})
    assert found[0] == found[1] == found[2]
    assert len(found[0]) >= 4


def test_what_is_protected(world: PairedWorld) -> None:
    """By dead containers, by the memory of them, and by staged paths; by both kinds of plans."""
    main = world.repo.branch("main")
    main.put("a", b"a")
    main.commit("first")
    world.repo.change_settings(protect=("raw/*", "*.keep"))
    for number in range(2):
        work = world.other().create_branch("work", "main")
        for path in ("raw/x", "y.keep", "garbage"):
            work.put(path, b"committed")
        work.copy("raw/x", "a1")
        work.commit("dies")
        work.put("raw/staged", b"staged")
        world.other().delete_branch("work")
        world.backend.close()
        world.age()
        limits = list(LIMITS.values())
        for lookup, driver_rows in (limits[0], limits[2]):
            world.spark.lookup_limit, world.spark.driver_row_limit = lookup, driver_rows
            plans = [world.uncommitted(allowed_fraction=1.0), world.plan(allowed_fraction=1.0)]
            for plan in plans:
                kept = {group.reason: group.objects for group in plan.document.staying}
                assert kept["protected by raw/*"] == 2 * (number + 1), number
                assert kept["protected by *.keep"] == number + 1
        world.apply(plans[number])
        world.age()
