"""Lifecycle runs beside whoever makes a reference: at the moment of the promotion all is matched.

Whatever the order of their steps was, an oracle that reads every commit looks right after the one
change that makes claims final, before anybody else has a turn.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from reclaim.catalog.collection import claimed_addresses
from reclaim.catalog.database.schema import TokenState
from reclaim.policy.lifecycle import DatedRule, date_rules, read_lifecycle
from reclaim.run.lifecycle import planning
from reclaim.testing.exploring import Exploration
from tests.lifecycle.oracle import verdicts
from tests.schedules import operations
from tests.schedules.checks import Checks, _staged, expired
from tests.schedules.exploring import Golden, explore, scheduler
from tests.schedules.past import Past, Pasts
from tests.soak import SOAK

RACES: dict[str, tuple[str, ...]] = {
    "copied while rules take it": ("copy of the old", "lifecycle"),
    "moved while rules take it": ("move of the old", "lifecycle"),
    "archived while rules take it": ("archive", "lifecycle"),
    "tagged while rules take it": ("tag", "lifecycle"),
    "leased while rules take it": ("lease of the old", "lifecycle"),
    "another branch reset to it while rules take it": ("reset to the old", "lifecycle"),
    "merged while rules take it": ("merge", "lifecycle"),
    "a commit in flight while rules take something": ("commit", "lifecycle"),
    "two runs by the same rules, one of which stalls": ("lifecycle", "late lifecycle"),
    "an undo while rules take something": ("undo", "lifecycle"),
    "a reaper while rules take something": ("reap", "lifecycle"),
    "copied and committed while rules take it": ("copy of the old", "commit", "lifecycle"),
}
OFTEN = ("copied while rules take it", "archived while rules take it")
"""Of each kind of reference one that is tried in more orders."""


class Oracle:
    """Looks at every promotion as it happens."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self.promotions = 0
        self.taken = 0
        self.wrong: list[str] = []

    def look(self) -> None:
        world = self._past.world
        self.promotions += 1
        policy = read_lifecycle(json.dumps(operations.LIFECYCLE))
        today = world.clock.now().date() + timedelta(days=operations.DAYS_LATER)
        found = verdicts(world, date_rules(policy, today))
        taken = expired(world.repo)
        self.taken += len(taken)
        # One that no live commit has any more is nobody's.
        held = [one for one in taken if one in found and not found[one].goes]
        staged = taken & _staged(world.repo, (TokenState.OPEN, TokenState.SEALED))
        if held or staged:
            self.wrong.append(f"held: {held}, staged: {staged}")


@pytest.fixture
def past(name: str, pasts: Pasts) -> Past:
    return pasts.of(RACES[name])


@pytest.fixture
def oracle(past: Past, monkeypatch: pytest.MonkeyPatch) -> Oracle:
    looking = Oracle(past)
    promote = claimed_addresses.promote

    def watched(*args: Any, **kwargs: Any) -> bool:
        promoted = promote(*args, **kwargs)
        if promoted:
            looking.look()
        return promoted

    def later(policy: Any, today: Any) -> list[DatedRule]:
        return date_rules(policy, today + timedelta(days=operations.DAYS_LATER))

    monkeypatch.setattr(claimed_addresses, "promote", watched)
    monkeypatch.setattr(planning, "date_rules", later)
    return looking


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
