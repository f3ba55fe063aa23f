"""Taking over: condemned snapshots that other runs have left, and that this one can promise."""

from __future__ import annotations

from collections.abc import Sequence

from reclaim.model import SnapshotId
from reclaim.run.apply.context import ApplyContext
from reclaim.run.undo.completeness import find_whole
from reclaim.stores.abilities import HeldQuarantine


def find_left_whole(context: ApplyContext) -> Sequence[SnapshotId]:
    """Snapshots that runs which have ended left condemned, if this one can promise them.

    Of some of them an earlier run has deleted a part; nobody can bring those back.
    """
    store, held = context.store, context.held
    if context.removal.name is None or store.deleted or not isinstance(held, HeldQuarantine):
        return ()
    left = held.left_condemned()
    if not left:
        return ()
    place = context.work.below("left")
    return find_whole(store, context.engine, left, place, opener=context.opener)
