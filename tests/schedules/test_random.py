"""Larger sets of operations in a random order. What failed once fails again with its seed.

``RECLAIM_SCHEDULE_SEED=7 pytest tests/schedules/test_random.py`` tries one of them.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.schedules.checks import Checks
from tests.schedules.exploring import scheduler
from tests.schedules.operations import EVERY_OPERATION, RUNS
from tests.schedules.past import INSTANCES, Pasts
from tests.support.exploring import random_schedule
from tests.support.soak import MORE

GIVEN = os.environ.get("RECLAIM_SCHEDULE_SEED")
SEEDS = [GIVEN] if GIVEN else [str(number) for number in range(10 * MORE)]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_operations(seed: str, pasts: Pasts, checks: Checks) -> None:
    print(f"RECLAIM_SCHEDULE_SEED={seed}")
    chance = random.Random(f"operations {seed}")
    short = sorted(EVERY_OPERATION.keys() - RUNS)
    names = [chance.choice(short) for _ in range(INSTANCES - 1)]
    names.append(chance.choice(sorted(EVERY_OPERATION)))
    past = pasts.of(names)
    tasks = scheduler(past, names, warm=chance.random() < 0.5)
    schedule = random_schedule(seed, len(names), turns=40)
    trace = tasks.run(schedule)
    checks.check(past, trace)
    if chance.random() < 0.2:
        assert tasks.run(schedule).schedule == trace.schedule
