"""Lifecycle rules on Spark, step by step beside the plain engine, over random histories."""

from __future__ import annotations

import random

import pytest

from reclaim.engine.pipelines import lifecycle
from reclaim.run.undo.undo_run import undo_run
from tests.lifecycle.random_rules import Seen, live_by_rules
from tests.lifecycle.ruled import plan_rules, section
from tests.lifecycle.test_afterwards import collect_and_run, cut_off
from tests.spark.test_random import PairedWorld, tmp_path, world
from tests.support.soak import SOAK

__all__ = ["tmp_path", "world"]

SEEDS = range(100 if SOAK else 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_both_decide_the_same(
    world: PairedWorld, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice, seen = random.Random(100 + seed), Seen()
    # Where there are too many keys, whole partitions are decided on.
    monkeypatch.setattr(lifecycle, "LOOKUP_LIMIT", choice.choice([0, 10**9]))
    world.spark.driver_row_limit = choice.choice([0, 10**6])
    live_by_rules(world, choice, seen, rounds=4 if SOAK else 1)
    assert seen.went
    # And once more, as a scheduler runs it, after a collection.
    world.clock.advance(days=1)
    done = collect_and_run(world)
    assert done.plan is not None
    assert section(done.plan).mode == "incremental"
    # A run of the other kind has every entry in the index.
    plan = world.uncommitted(allowed_fraction=1.0)
    assert plan.document.uncommitted is not None
    assert plan.document.uncommitted.ranges_read == 0
    world.apply(plan)
    assert section(plan_rules(world, {"last": {"prefix": "", "days": 9}})).ranges_read == 0


def test_a_run_that_was_cut_off_is_given_up_on_executors(world: PairedWorld) -> None:
    first = cut_off(world)
    world.storage.delete(world.repo.branch("main").stat("logs/0").address)
    done = undo_run(world.store(), world.spark, first)
    assert (done.released, done.gone) == (4, 1)
