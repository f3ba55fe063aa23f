"""The record of an apply as it begins, with the parts that earlier applies of its plan left."""

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
    """The record that an apply begins with.

    A window that an earlier apply promised is not shortened, also if it came to nothing.
    """
    earlier, planned = context.earlier, context.planned
    now = context.store.clock.now()
    record = RunRecord(
        planned.run,
        planned.run_kind,
        Phase.STARTED,
        # By the times of edits an undo tells which of them lie above another.
        planned.started_at if planned.history_only is None else now,
        str(context.place),
        promised=context.removal.quarantine(now, _promised(earlier)),
        plan=planned.digest,
        vouched=not context.basis.compared,
        # From the start: who goes on with this run must leave out the same.
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
        # What is taken now as well, the next run does not find any more.
        checkpoint=earlier.checkpoint,
        lifecycle=_left_for_next(earlier.lifecycle),
    )


def _left_for_next(lifecycle: RecordedLifecycle | None) -> RecordedLifecycle | None:
    if lifecycle is None:
        return None
    return RecordedLifecycle(dates=lifecycle.dates)


def _promised(earlier: RunRecord | None) -> Quarantine | None:
    """The quarantine that an earlier apply of the plan was made with, whatever came of it."""
    return None if earlier is None else earlier.promised
