"""The facts in the record of an apply as it begins, with those of earlier applies of its plan."""

from __future__ import annotations

from typing import Any

from reclaim.model import (
    CHECKPOINT,
    INTENDED,
    LIFECYCLE_CHECKPOINT,
    LIFECYCLE_DATES,
    PLAN_DIGEST,
    PROTECTED,
    VOUCHED,
    Quarantine,
    Run,
)
from reclaim.run.applying.context import ApplyContext
from reclaim.run.edit_counts import EditCounts
from reclaim.run.exclusion import EXCLUDE

CONDEMNED, COLLECTED = "condemned", "collected"
"""Names of counts in a run's record."""
LEFT_FOR_NEXT = (CHECKPOINT, LIFECYCLE_CHECKPOINT, LIFECYCLE_DATES)
"""Facts about what a run has left for the next one."""


def first_facts(context: ApplyContext) -> dict[str, Any]:
    """The facts that an apply begins with.

    A window that an earlier apply promised is not shortened, also if it came to nothing.
    """
    earlier = context.earlier
    before = dict(earlier.summary) if earlier is not None and context.begun else {}
    aside = context.removal.quarantine(context.store.clock.now(), _promised(earlier))
    facts = {} if aside is None else aside.record()
    facts |= EditCounts.of_record(before).record()
    facts |= {name: before.get(name, 0) for name in (CONDEMNED, COLLECTED, INTENDED)}
    facts[PLAN_DIGEST] = context.planned.digest
    # What is taken now as well, the next run does not find any more.
    facts |= {name: before[name] for name in LEFT_FOR_NEXT if name in before}
    if earlier is not None and PROTECTED in earlier.summary:
        facts[PROTECTED] = earlier.summary[PROTECTED]
    if context.exclusion is not None:
        # From the start: who goes on with this run must leave out the same.
        facts[EXCLUDE] = list(context.globs)
    if not context.basis.compared:
        facts[VOUCHED] = True
    return facts


def _promised(earlier: Run | None) -> Quarantine | None:
    """The quarantine that an earlier apply of the plan was made with, whatever came of it."""
    if earlier is None:
        return None
    try:
        return earlier.quarantine or Quarantine.of_record(earlier.summary)
    except ValueError:
        return None
