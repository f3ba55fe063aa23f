"""Collecting: delete the metadata of dead snapshots whose objects are all gone."""

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
    """Delete the metadata of dead snapshots without remaining objects; return their number."""
    kinds = seen.containers.values()
    reachable_or_taken = {
        addresses[live] for addresses in kinds for live in now.live if live in addresses
    }
    for kind in seen.containers:
        reachable_or_taken |= journal.taken(kind)

    def is_gone(snapshot: SnapshotId) -> bool:
        addresses_of = {addresses[snapshot] for addresses in kinds if snapshot in addresses}
        remaining = addresses_of - reachable_or_taken
        # Some objects need not have existed. An earlier run may have deleted the rest of a snapshot
        # condemned before this run.
        check_storage = remaining != addresses_of or snapshot not in seen.ids
        return not remaining or (
            check_storage and all(_is_missing(context.store, address) for address in remaining)
        )

    dead = [snapshot for snapshot in decided.dead if snapshot not in now.live and is_gone(snapshot)]
    return context.removal.finalize(context.held, dead)


def _is_missing(store: Store, address: str) -> bool:
    try:
        store.storage.head(address)
    except NotFound:
        return True
    return False
