"""The record of an apply as it begins, with what earlier applies of the same plan did."""

from __future__ import annotations

from typing import Any

from reclaim.model import INTENDED, Quarantine, Run
from reclaim.run.edit_counts import EditCounts
from reclaim.run.removal import Removal
from reclaim.stores.base import Store

CONDEMNED, COLLECTED = "condemned", "collected"
"""Names of counts in a run's record."""


def first_facts(
    removal: Removal, store: Store, earlier: Run | None, *, begun: bool
) -> dict[str, Any]:
    """The run's record as it begins, with what earlier applies of the plan did.

    A window that one of them promised is not shortened, also if it came to nothing.
    """
    before = dict(earlier.summary) if earlier is not None and begun else {}
    aside = removal.quarantine(store.clock.now(), _promised(earlier))
    facts = {} if aside is None else aside.record()
    facts |= EditCounts.of_record(before).record()
    return facts | {name: before.get(name, 0) for name in (CONDEMNED, COLLECTED, INTENDED)}


def _promised(earlier: Run | None) -> Quarantine | None:
    """The quarantine that an earlier apply of the plan was made with, whatever came of it."""
    if earlier is None:
        return None
    try:
        return earlier.quarantine or Quarantine.of_record(earlier.summary)
    except ValueError:
        return None
