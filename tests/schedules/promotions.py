"""An oracle that looks right after claims have become final, before anybody else has a turn."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from reclaim.catalog.collection.condemn import claimed_addresses
from reclaim.catalog.database.schema import TokenState
from reclaim.policy.lifecycle import DatedRule, date_rules, read_lifecycle
from reclaim.run.lifecycle import planning
from tests.lifecycle.oracle import verdicts
from tests.schedules import operations
from tests.schedules.checks import _staged, expired
from tests.schedules.past import Past


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


def watch_promotions(past: Past, patch: pytest.MonkeyPatch) -> Oracle:
    """An oracle that looks at promotions from here on, of rules whose time has come."""
    looking = Oracle(past)
    promote = claimed_addresses.promote

    def watched(*args: Any, **kwargs: Any) -> bool:
        promoted = promote(*args, **kwargs)
        if promoted:
            looking.look()
        return promoted

    def later(policy: Any, today: Any) -> list[DatedRule]:
        return date_rules(policy, today + timedelta(days=operations.DAYS_LATER))

    patch.setattr(claimed_addresses, "promote", watched)
    patch.setattr(planning, "date_rules", later)
    return looking
