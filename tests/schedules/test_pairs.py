"""All pairs of operations, in every order of their steps that could make a difference.

Where that is too many, ``make test`` tries those with few preemptions and a sample of the next, and
``make soak`` many more; the golden file says how far each went.
"""

from __future__ import annotations

from itertools import combinations_with_replacement

import pytest

from reclaim.testing.exploring import Exploration
from tests.schedules.checks import Checks
from tests.schedules.exploring import Golden, explore, scheduler
from tests.schedules.operations import OPERATIONS, RUNS
from tests.schedules.past import Past
from tests.soak import SOAK

PAIRS = list(combinations_with_replacement(OPERATIONS, 2))
ENOUGH, SAMPLE = (5_000, 1_000) if SOAK else (5, 2)
ENOUGH_OF_RUNS, SAMPLE_OF_RUNS = (400, 100) if SOAK else (2, 1)


ON_ONE_PATH = {"put", "delete", "copy", "move", "commit", "reset path", "reset", "delete branch"}
"""Operations on one path of one branch: of any two the order can be seen in the end."""


@pytest.mark.parametrize("pair", PAIRS, ids=" + ".join)
def test_a_pair(pair: tuple[str, str], past: Past, checks: Checks, golden: Golden) -> None:
    long = bool(RUNS & set(pair))
    exploration = Exploration(
        scheduler(past, pair),
        enough=ENOUGH_OF_RUNS if long else ENOUGH,
        sample=SAMPLE_OF_RUNS if long else SAMPLE,
    )
    explored = explore(exploration, checks)
    if set(pair) <= ON_ONE_PATH and len(set(pair)) == 2:
        assert sum(explored.ends.values()) >= 2, explored.ends
    golden.compare(" + ".join(pair), explored)
