"""A task dies between any two of its steps, with its locks held; another goes on when it can."""

from __future__ import annotations

import pytest

from tests.schedules.checks import Checks
from tests.schedules.exploring import Golden, scheduler, tried
from tests.schedules.operations import RUNS
from tests.schedules.past import Pasts
from tests.support.exploring import crashes
from tests.support.soak import SOAK

pytestmark = pytest.mark.repeats(first=2)

DEATHS: dict[str, str] = {
    # Who dies → who goes on.
    "put": "commit",
    "copy": "delete",
    "copy of the dead": "collect",
    "move": "commit",
    "commit": "commit",
    "merge": "commit",
    "revert": "collect",
    "reset": "commit",
    "link": "link",
    "clean": "reap",
    "reap": "reap",
    "expire": "expire",
    "collect": "late collect",
    "undo": "undo",
}


@pytest.mark.parametrize("victim", DEATHS)
def test_a_death(victim: str, pasts: Pasts, checks: Checks, golden: Golden) -> None:
    names = (victim, DEATHS[victim])
    stride = 1
    if not SOAK and RUNS & set(names):
        stride = 37 if victim in RUNS else 4
    past = pasts.of(names)
    deaths = crashes(scheduler(past, names), 0, stride=stride)
    golden.compare(f"{victim} dies, then {DEATHS[victim]}", tried(deaths, past, checks))
