"""Objects that snapshots need once their parents are replaced."""

from __future__ import annotations

from reclaim.ids import new_uid
from reclaim.run.roots.request import RootRequest, holding
from reclaim.stores.abilities import NeedsMoreOnceEdited
from reclaim.stores.observation import Observation


def hold_needed_once_edited(seen: Observation, request: RootRequest) -> Observation:
    """An observation that also holds what snapshots need after the edit that a plan decided on."""
    store, marked = request.store, request.marked
    assert marked is not None
    decided = marked.decided
    if decided is None or decided.edit.empty or not isinstance(store, NeedsMoreOnceEdited):
        return seen
    addresses = sorted(store.needed_once_edited(decided.history, decided.edit))
    if not addresses:
        return seen
    return holding(seen, [request.write(f"edited-{new_uid()}", addresses)])
