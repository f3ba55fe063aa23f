"""Whether a store is collected often enough: long pauses make long runs, and keep garbage."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from reclaim.model import Run, RunState
from reclaim.run.admission import COLLECT
from reclaim.stores.base import Store
from reclaim.stores.registry import name_of

TOO_OLD = timedelta(days=30)
FINISHED = (RunState.DONE, RunState.PURGED)
"""One whose quarantine has ended since was finished as well."""


def find_lateness(store: Store, runs: Sequence[Run]) -> tuple[str, str] | None:
    """What is late in a store, and what to do about it; None if its last finished run is young."""
    done = max(
        (run.started_at for run in runs if run.kind == COLLECT and run.state in FINISHED),
        default=None,
    )
    since = done or getattr(store, "created_at", None)
    if store.deleted or since is None or store.clock.now() - since <= TOO_OLD:
        return None
    said = f"the last finished run was on {done:%F}" if done else "it was never collected"
    named = name_of(store.kind, store.name, store.uid)
    return said, f"run `reclaim gc {named}` from a scheduler"
