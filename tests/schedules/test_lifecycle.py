"""Lifecycle runs beside whoever makes a reference: at the moment of the promotion all is matched.

Whatever the order of their steps was, an oracle that reads every commit looks right after the one
change that makes claims final, before anybody else has a turn.
"""

from __future__ import annotations

import pytest

from tests.schedules.checks import Checks
from tests.schedules.exploring import Golden, explore, scheduler
from tests.schedules.past import Past, Pasts
from tests.schedules.promotions import Oracle, watch_promotions
from tests.support.exploring import Exploration
from tests.support.soak import SOAK

pytestmark = pytest.mark.repeats(first=3)

RACES: dict[str, tuple[str, ...]] = {
    "copied while rules take it": ("copy of the old", "lifecycle"),
    "moved while rules take it": ("move of the old", "lifecycle"),
    "archived while rules take it": ("archive", "lifecycle"),
    "tagged while rules take it": ("tag", "lifecycle"),
    "leased while rules take it": ("lease of the old", "lifecycle"),
    "another branch reset to it while rules take it": ("reset to the old", "lifecycle"),
    "merged while rules take it": ("merge", "lifecycle"),
    "reverted to while rules take it": ("revert to the old", "lifecycle"),
    "linked and committed while rules take something": ("link and commit", "lifecycle"),
    "a commit in flight while rules take something": ("commit", "lifecycle"),
    "two runs by the same rules, one of which stalls": ("lifecycle", "late lifecycle"),
    "an undo while rules take something": ("undo", "lifecycle"),
    "a reaper while rules take something": ("reap", "lifecycle"),
    "copied and committed while rules take it": ("copy of the old", "commit", "lifecycle"),
}
OFTEN = ("copied while rules take it", "archived while rules take it")
"""Of each kind of reference one that is tried in more orders."""


@pytest.fixture
def past(name: str, pasts: Pasts) -> Past:
    return pasts.of(RACES[name])


@pytest.fixture
def oracle(past: Past, monkeypatch: pytest.MonkeyPatch) -> Oracle:
    return watch_promotions(past, monkeypatch)


@pytest.mark.parametrize("name", RACES)
def test_what_is_promoted_is_matched(
    name: str, past: Past, checks: Checks, golden: Golden, oracle: Oracle
) -> None:
    exploration = Exploration(
        scheduler(past, RACES[name]),
        enough=1_000 if SOAK else 2,
        sample=500 if SOAK else 6 if name in OFTEN else 2,
    )
    explored = explore(exploration, past, checks)
    assert not oracle.wrong
    # In some order of the two the rules come first.
    assert oracle.promotions
    assert oracle.taken
    golden.compare(name, explored)
