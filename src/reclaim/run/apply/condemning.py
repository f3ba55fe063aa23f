"""Condemning: all that is dead is marked, so that nobody can build on any of it."""

from __future__ import annotations

from reclaim.errors import OutOfTime
from reclaim.run.apply.context import ApplyContext
from reclaim.run.apply.editing import Editing
from reclaim.run.plan.decide import KEEPS_ALL, Decided, decide_seen
from reclaim.run.plan.plan_snapshots import PlannedSnapshots
from reclaim.stores.abilities import HeldGuards
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
