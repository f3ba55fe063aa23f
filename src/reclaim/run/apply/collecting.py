"""Collecting: dead snapshots of which nothing is left are let go of."""

from __future__ import annotations

from reclaim.errors import NotFound
from reclaim.model import SnapshotId
from reclaim.run.apply.context import ApplyContext
from reclaim.run.plan.decide import Decided
from reclaim.run.plan.plan_snapshots import PlannedSnapshots
from reclaim.run.record.journal import Journal
from reclaim.stores.base import Store
from reclaim.stores.observation import Observation


def collect(
    context: ApplyContext,
    journal: Journal,
    decided: PlannedSnapshots,
    seen: Observation,
    now: Decided,
) -> int:
    """Let go of the dead snapshots of which nothing is left; returns how many."""
    kinds = seen.containers.values()
    over = {addresses[one] for addresses in kinds for one in now.live if one in addresses}
    for kind in seen.containers:
        over |= journal.taken(kind)

    def is_gone(snapshot: SnapshotId) -> bool:
        own = {addresses[snapshot] for addresses in kinds if snapshot in addresses}
        left = own - over
        # Some need not have been there. Of what was condemned before this run, an earlier one took
        # the rest.
        asked = left != own or snapshot not in seen.ids
        return not left or (asked and all(_is_missing(context.store, one) for one in left))

    dead = [one for one in decided.dead if one not in now.live and is_gone(one)]
    return context.removal.finalize(context.held, dead)


def _is_missing(store: Store, address: str) -> bool:
    try:
        store.storage.head(address)
    except NotFound:
        return True
    return False
