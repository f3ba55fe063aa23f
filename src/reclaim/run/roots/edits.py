"""Objects needed by snapshots after their parents are replaced."""

from __future__ import annotations

from dataclasses import replace

from reclaim.ids import new_uid
from reclaim.run.plan.decide import KEEPS_ALL, decide_seen
from reclaim.run.roots.request import RootRequest, holding
from reclaim.stores.abilities import NeedsMoreOnceEdited, TakesReferenced
from reclaim.stores.observation import Observation


def hold_needed_once_edited(seen: Observation, request: RootRequest) -> Observation:
    """Add the objects needed by snapshots after the edit a plan decided on."""
    store, marked = request.store, request.marked
    assert marked is not None
    decided = marked.decided
    if decided is None or decided.edit.empty or not isinstance(store, NeedsMoreOnceEdited):
        return seen
    addresses = sorted(store.needed_once_edited(decided.history, decided.edit))
    if not addresses:
        return seen
    return holding(seen, [request.write(f"edited-{new_uid()}", addresses)])


def hold_undoable_edits(seen: Observation, request: RootRequest) -> Observation:
    """Add unreachable commits removed by edits that can be undone, as promised.

    Only for a run that deletes objects of live commits: a collection may delete these commits.
    Commits reachable from a branch are judged by the rules of the branch: otherwise they would be
    held forever, because no collection ends the hold.
    """
    store = request.store
    if not request.takes_referenced or not isinstance(store, TakesReferenced) or store.deleted:
        return seen
    dead = seen.ids - decide_seen(KEEPS_ALL, seen).live
    released = store.find_released(dead)
    return replace(seen, promised=seen.promised.union(released)) if released else seen
