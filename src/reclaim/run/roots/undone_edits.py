"""Commits that an edit of the history has taken out of it, and that its undo would bring back.

Nothing reaches them, and a collection may take them; until then they hold what they have from
lifecycle rules, as the history that they were in did. So an undo finds it as it was.
"""

from __future__ import annotations

from dataclasses import replace

from reclaim.run.plan.decide import KEEPS_ALL, decide_seen
from reclaim.run.roots.request import RootRequest
from reclaim.stores.abilities import TakesReferenced
from reclaim.stores.observation import Observation


def hold_undoable_edits(seen: Observation, request: RootRequest) -> Observation:
    """An observation that also promises such commits, where nothing else reaches them.

    Only for a run that takes objects of live commits: a collection may take theirs.

    What a branch reaches is judged by the rules of that branch: it would be held for ever
    otherwise, because no collection ends it.
    """
    store = request.store
    if not request.takes_referenced or not isinstance(store, TakesReferenced) or store.deleted:
        return seen
    dead = seen.ids - decide_seen(KEEPS_ALL, seen).live
    released = store.find_released(dead)
    return replace(seen, promised=seen.promised.union(released)) if released else seen
