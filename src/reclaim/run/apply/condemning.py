"""Condemning: mark all dead snapshots, so that nobody can build on them."""

from __future__ import annotations

from collections.abc import Sequence

from reclaim.errors import OutOfTime
from reclaim.model import SnapshotId
from reclaim.run.apply.context import ApplyContext
from reclaim.run.apply.editing import Editing
from reclaim.run.plan.decide import KEEPS_ALL, Decided, decide_seen
from reclaim.run.plan.plan_snapshots import PlannedSnapshots
from reclaim.run.undo.completeness import find_whole
from reclaim.stores.abilities import HeldGuards, HeldQuarantine
from reclaim.stores.observation import Observation

ROUNDS = 20
"""Rounds of marking before the run stops and asks for a pause of writers."""


def condemn(
    context: ApplyContext, editing: Editing, decided: PlannedSnapshots
) -> tuple[Observation, Decided]:
    """Mark dead snapshots until a read shows all of them marked; unmark live snapshots.

    Return this read and its decisions. ``decided`` has the decisions of the plan.
    """
    held = context.held
    if isinstance(held, HeldGuards):
        held.close_overdue()
    for _ in range(ROUNDS):
        seen = context.observe()
        now = editing.spare(seen, decide_seen(KEEPS_ALL, seen))
        unmarked = {
            snapshot: decided.dead.get(snapshot) or now.rule(snapshot)
            for snapshot in seen.ids
            if snapshot not in now.live and snapshot not in seen.marked
        }
        if not unmarked:
            held.release([snapshot for snapshot in seen.marked if snapshot in now.live])
            return seen, now
        held.condemn(unmarked)
    raise OutOfTime(
        f"the history changed faster than its dead {context.store.noun}s could be marked",
        hint="nothing was deleted; apply it again when fewer branches are being deleted",
    )


def find_left_whole(context: ApplyContext) -> Sequence[SnapshotId]:
    """Return condemned snapshots left by finished runs that can be restored from this run.

    Snapshots that already lost objects to an earlier run cannot be restored.
    """
    store, held = context.store, context.held
    if context.removal.name is None or store.deleted or not isinstance(held, HeldQuarantine):
        return ()
    left = held.left_condemned()
    if not left:
        return ()
    place = context.work.below("left")
    return find_whole(store, context.engine, left, place, opener=context.opener)
