"""Lifecycle runs interrupted after their promotion."""

from __future__ import annotations

from collections.abc import Iterator

from reclaim.run_record import Phase, RunRecord
from reclaim.stores.abilities import TakesReferenced
from reclaim.stores.base import Store


def find_interrupted(store: Store) -> Iterator[RunRecord]:
    """Unfinished runs with promoted claims, oldest first."""
    if not isinstance(store, TakesReferenced):
        return
    promoted = store.expired_by()
    for run in reversed(store.runs()):
        if run.id in promoted and _is_cut_off(run):
            yield run


def can_be_given_up(store: Store, run: RunRecord) -> bool:
    """Whether a run deletes without quarantine, and was interrupted or had failed deletes."""
    return (
        isinstance(store, TakesReferenced)
        and _is_cut_off(run)
        and run.quarantine is None
        and run.id in store.expired_by()
    )


def _is_cut_off(run: RunRecord) -> bool:
    return run.unfinished or run.phase is Phase.STOPPED
