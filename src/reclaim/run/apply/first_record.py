"""The record of an apply at its start, with the results of earlier applies of its plan."""

from __future__ import annotations

from dataclasses import replace

from reclaim.run.apply.context import ApplyContext
from reclaim.run_record import (
    NOTHING_LEFT_OUT,
    LeftOut,
    Phase,
    Quarantine,
    RecordedEdit,
    RecordedLifecycle,
    RunCounts,
    RunRecord,
)


def first_record(context: ApplyContext) -> RunRecord:
    """Return the record an apply begins with.

    A quarantine promised by an earlier apply is not shortened, even if no object was moved.
    """
    earlier, planned = context.earlier, context.planned
    now = context.store.clock.now()
    record = RunRecord(
        planned.run,
        planned.run_kind,
        Phase.STARTED,
        # An undo orders edits by these times.
        planned.started_at if planned.history_only is None else now,
        str(context.place),
        promised=context.removal.quarantine(now, _promised(earlier)),
        plan=planned.digest,
        vouched=not context.basis.compared,
        # From the start: whoever continues this run must exclude the same objects.
        left_out=LeftOut(tuple(context.globs)) if context.exclusion else NOTHING_LEFT_OUT,
    )
    if earlier is None:
        return record
    edit = RecordedEdit(
        by_library=earlier.edit.by_library, released_file=earlier.edit.released_file
    )
    record = replace(
        record,
        started_at=earlier.started_at if planned.history_only is None else now,
        operators=earlier.operators,
        protected=earlier.protected,
        edit=edit,
    )
    if not context.begun:
        return record
    return replace(
        record,
        phase=Phase.PROMOTED if earlier.promoted else Phase.STARTED,
        intended=earlier.intended,
        counts=RunCounts(condemned=earlier.counts.condemned, collected=earlier.counts.collected),
        edit=replace(edit, counts=earlier.edit.counts),
        # The next run no longer finds the objects deleted by this apply.
        checkpoint=earlier.checkpoint,
        lifecycle=_left_for_next(earlier.lifecycle),
    )


def _left_for_next(lifecycle: RecordedLifecycle | None) -> RecordedLifecycle | None:
    if lifecycle is None:
        return None
    return RecordedLifecycle(dates=lifecycle.dates)


def _promised(earlier: RunRecord | None) -> Quarantine | None:
    """The quarantine of an earlier apply of the plan, with or without objects."""
    return None if earlier is None else earlier.promised
