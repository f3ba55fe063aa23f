"""Lifecycle runs that have promoted what they take, and did not come to their end."""

from __future__ import annotations

from collections.abc import Iterator

from reclaim.run_record import Phase, RunRecord
from reclaim.stores.abilities import TakesReferenced
from reclaim.stores.base import Store


def find_cut_off(store: Store) -> Iterator[RunRecord]:
    """The runs whose claims are promoted and that did not come to their end, the oldest first."""
    if not isinstance(store, TakesReferenced):
        return
    promoted = store.expired_by()
    for run in reversed(store.runs()):
        if run.id in promoted and _is_cut_off(run):
            yield run


def can_be_given_up(store: Store, run: RunRecord) -> bool:
    """Whether a run deletes for good, and was cut off or could not delete everything."""
    return (
        isinstance(store, TakesReferenced)
        and _is_cut_off(run)
        and run.quarantine is None
        and run.id in store.expired_by()
    )


def _is_cut_off(run: RunRecord) -> bool:
    return run.unfinished or run.phase is Phase.STOPPED
