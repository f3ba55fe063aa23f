"""Spark and the local engine, step by step, over random histories with every kind of commit.

``RECLAIM_SOAK=1`` makes it run for long.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from reclaim.catalog.content import ranges
from reclaim.engine.spark.engine import SparkEngine
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.storage import Storage
from reclaim.testing import FakeClock
from tests.collect.helpers.forging import forge, forget, naming
from tests.collect.helpers.histories import MORE_KINDS, Deed, live, plan, start
from tests.collect.helpers.world import Step, World, bury, nothing
from tests.conftest import Backend
from tests.spark.paired import PairedEngine
from tests.support.memory import folder_in_memory
from tests.support.soak import SOAK

RULES: list[dict[str, Any]] = [{}, {"older_than": "3d"}, {"keep_last": 1}, {"keep_last": 2}]
SEEDS = range(300 if SOAK else 2)


class PairedWorld(World):
    """A repository whose runs use both engines."""

    spark: SparkEngine

    def engine(self, step: Step = nothing, storage: Storage | None = None) -> Any:
        return PairedEngine(self.spark, super().engine(step, storage), self.storage)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with folder_in_memory() as folder:
        yield folder


@pytest.fixture
def world(
    spark: SparkSession, embedded: Backend, monkeypatch: pytest.MonkeyPatch, clock: FakeClock
) -> PairedWorld:
    monkeypatch.setattr(ranges, "TARGET_ROWS", 2)
    made = PairedWorld(embedded, embedded.init().create_repository("sales"))
    made.spark = SparkEngine(spark, tasks=2)
    return made


def deeds(choice: random.Random, count: int) -> list[Deed]:
    """So many deeds of each kind, in any order."""
    kinds = sorted(MORE_KINDS) * count
    choice.shuffle(kinds)
    return [(kind, choice.randrange(100), choice.randrange(100)) for kind in kinds]


@pytest.mark.parametrize("seed", SEEDS)
def test_both_find_the_same(world: PairedWorld, seed: int) -> None:
    choice = random.Random(seed)
    world.spark.lookup_limit = choice.choice([0, 10**9])
    start(world, deeds(choice, 2 if SOAK else 1))
    policy = {
        "rules": choice.choice(RULES),
        "delete_expired_tags": choice.random() < 0.5,
        "delete_expired_branches": choice.random() < 0.5,
    }
    made = plan(world, policy)
    live(world, deeds(choice, 1))
    before = world.there()
    run = world.apply(made, removal=MoveToQuarantine()).run
    assert before - world.there() <= set(world.candidates(made))
    world.check()
    if SOAK:
        world.undo(run)
        world.check()


def test_an_empty_commit_between_plan_and_apply(world: PairedWorld) -> None:
    """Its metarange is its parent's, which the plan has read already."""
    bury(world)
    made = world.plan()
    before = world.there()
    world.other().branch("main").commit("nothing new", allow_empty=True)
    world.apply(made)
    world.check_swept(made, before)


def test_a_forged_plan_that_nobody_vouches_for(world: PairedWorld) -> None:
    """Half of what it lists is live; the other half goes."""
    bury(world)
    made = world.plan()
    dead = set(world.candidates(made))
    wanted = world.needed() & world.there()
    forge(world, made, lambda rows: [*rows, *naming(wanted)(rows)], allowed_fraction=100.0)
    forget(world)
    done = world.apply(made)
    assert done.compared
    assert dead & world.there() == set()
    assert wanted <= world.there()
    world.check()
