"""Races by their names: those of seed 002, ours, and ten of three operations."""

from __future__ import annotations

import pytest

from tests.schedules.checks import Checks
from tests.schedules.exploring import Golden, explore, explore_all, scheduler
from tests.schedules.operations import RUNS
from tests.schedules.past import Pasts
from tests.support.exploring import Exploration
from tests.support.soak import SOAK
from tests.support.state_graph import StateGraph

pytestmark = pytest.mark.repeats(first=3)

RACES: dict[str, tuple[str, ...]] = {
    # Of the seed.
    "commit and move": ("commit", "move"),
    "delete and move": ("delete", "move"),
    "concurrent move": ("move", "move elsewhere"),
    "stale lock": ("collect", "late collect"),
    "write after commit": ("put", "commit"),
    # Ours.
    "reset during commit": ("commit", "reset"),
    "branch deleted and recreated during commit": ("commit", "recreate branch"),
    "revert into a dying range": ("revert", "collect"),
    "copy out of a dying range": ("copy of the dead", "collect"),
    "a lease while its commit dies": ("lease", "collect"),
    "an outside object staged while it is moved": ("stage outside", "move outside"),
    "deleted while the reaper is at work": ("delete", "reap"),
    "copied while the reaper is at work": ("copy", "reap"),
    "a copy of the database reaps": ("put", "reap from a copy"),
    "a stalled writer after its partition was closed": ("put", "late collect"),
    "a stalled commit after its partition was closed": ("commit", "late collect"),
    # Of runs on uncommitted data.
    "an upload that is staged during an optimized run": ("put", "uncommitted"),
    "an upload that is linked during an optimized run": ("link", "uncommitted"),
    "a commit in flight during an optimized run": ("commit", "uncommitted"),
    "a stalled writer and a late optimized run": ("put", "late uncommitted"),
    "a stalled commit and a late optimized run": ("commit", "late uncommitted"),
}
TRIPLES: dict[str, tuple[str, ...]] = {
    "copied while it is overwritten and deleted": ("put", "copy", "delete"),
    "a copy whose source goes before a cleaning": ("copy", "reset path", "clean"),
    "written while it is committed and cleaned": ("commit", "put", "clean"),
    "reset while it is committed and written": ("commit", "reset path", "put"),
    "moved and deleted while it is committed": ("commit", "move", "delete"),
    "linked while it is reset and reaped": ("link", "reset", "reap"),
    "merged while its branch is committed and deleted": ("merge", "commit", "delete branch"),
    "overwritten while it is copied and reaped": ("put", "copy", "reap"),
    "copied while it is committed and reset": ("commit", "copy", "reset"),
    "held and reverted while it dies": ("lease", "revert", "collect"),
    "reset during a commit during an optimized run": ("commit", "reset", "uncommitted"),
}
BOUNDS = {"branch deleted and recreated during commit": 1}
"""The most preemptions in ``make test``; as many as there can be otherwise."""
DIFFERENT_ENDS = {
    "delete and move": 2,
    "concurrent move": 2,
    "stale lock": 2,
    "reset during commit": 3,
    "branch deleted and recreated during commit": 2,
    "revert into a dying range": 2,
    "copy out of a dying range": 2,
}
"""Ways in which the tasks of a race end, at least."""


@pytest.mark.parametrize("name", RACES)
def test_a_race(name: str, pasts: Pasts, checks: Checks, golden: Golden) -> None:
    names = RACES[name]
    past = pasts.of(names)
    tasks = scheduler(past, names)
    if RUNS & set(names) and not SOAK:
        # Hundreds of steps: of orders with one preemption a sample, which interrupts each task
        # early, late and in between.
        explored = explore(Exploration(tasks, enough=3, sample=8), past, checks)
    else:
        bound = None if SOAK else BOUNDS.get(name)
        explored = explore_all(StateGraph(tasks, preemptions=bound), past, checks)
    assert len(explored.ends) >= DIFFERENT_ENDS.get(name, 1), explored.ends
    golden.compare(name, explored)


@pytest.mark.parametrize("name", TRIPLES)
def test_a_triple(name: str, pasts: Pasts, checks: Checks, golden: Golden) -> None:
    """With at most two preemptions: all of them in a soak, some of them otherwise."""
    names = TRIPLES[name]
    past = pasts.of(names)
    exploration = Exploration(
        scheduler(past, names),
        preemptions=2,
        enough=None if SOAK else 6,
        sample=4,
    )
    golden.compare(name, explore(exploration, past, checks))
