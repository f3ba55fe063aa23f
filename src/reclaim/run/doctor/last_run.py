"""Whether a store is collected often enough: long pauses make long runs and keep garbage."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from reclaim.run_record import COLLECT, RunRecord
from reclaim.stores.base import Store
from reclaim.stores.registry import name_of

TOO_OLD = timedelta(days=30)


def find_last(runs: Sequence[RunRecord]) -> datetime | None:
    """Start of the last finished run that collects unreferenced objects.

    Lifecycle runs do not count: they delete only expired data.
    """
    collections = (run for run in runs if run.kind == COLLECT and run.lifecycle is None)
    return max((run.started_at for run in collections if run.finished), default=None)


def find_overdue(store: Store, runs: Sequence[RunRecord]) -> tuple[str, str] | None:
    """Sentence and hint on an overdue collection; None if the last finished run is recent."""
    done = find_last(runs)
    since = done or getattr(store, "created_at", None)
    if store.deleted or since is None or store.clock.now() - since <= TOO_OLD:
        return None
    said = f"the last finished run was on {done:%F}" if done else "it was never collected"
    named = name_of(store.kind, store.name, store.uid)
    return said, f"run `reclaim gc {named}` from a scheduler"
