"""Condemning: all that is dead is marked, so that nobody can build on any of it."""

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
"""How often dead snapshots are looked for before the writers are asked to pause."""


def condemn(
    context: ApplyContext, editing: Editing, decided: PlannedSnapshots
) -> tuple[Observation, Decided]:
    """Mark what is dead until a read shows that all of it is marked; release what is not.

    Returns that read, and what is live by it. ``decided`` are the decisions of the plan.
    """
    held = context.held
    if isinstance(held, HeldGuards):
        held.close_overdue()
    for _ in range(ROUNDS):
        seen = context.observe()
        now = editing.spare(seen, decide_seen(KEEPS_ALL, seen))
        unmarked = {
            one: decided.dead.get(one) or now.rule(one)
            for one in seen.ids
            if one not in now.live and one not in seen.marked
        }
        if not unmarked:
            held.release([one for one in seen.marked if one in now.live])
            return seen, now
        held.condemn(unmarked)
    raise OutOfTime(
        f"the history changed faster than its dead {context.store.noun}s could be marked",
        hint="nothing was deleted; apply it again when fewer branches are being deleted",
    )


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
