"""Applying a plan that edits the history and deletes no objects.

Nothing is condemned or swept, so no engine is needed. The edit is provisional until the run is
recorded as done: an interrupted edit is rolled back, at the latest by the next holder of the lock.
"""

from __future__ import annotations

from reclaim.run.apply.applied import Applied
from reclaim.run.apply.applying import Applying
from reclaim.run.apply.context import ApplyContext
from reclaim.run.apply.editing import Editing
from reclaim.run.plan import plan_snapshots
from reclaim.run.plan.checks import check_counted
from reclaim.run.plan.plan_snapshots import PlannedSnapshots
from reclaim.run_record import Phase


class HistoryApplying(Applying):
    """Apply of a history plan."""

    def __init__(self, context: ApplyContext) -> None:
        super().__init__(context)
        self._editing = Editing(context, self._writer)

    def _apply(self) -> Applied:
        decided = self._check()
        with self._stages.stage("expire") as expiring:
            expiring.facts["edited"] = self._editing.edit(decided).reparented
            # Marks by the store's library are dropped: nobody has condemned these snapshots.
            self._context.held.abandon()
        with self._stages.stage("record"):
            applied = self._result()
            self._write_result(applied)
            return self._end(applied)

    def _has_changed(self) -> bool:
        return self._editing.has_edited()

    def _roll_back(self) -> Phase:
        if self._record.phase is Phase.DONE:
            # The record may be saved despite an error. Then the edit stands.
            return Phase.DONE
        return self._editing.roll_back(Phase.STOPPED)

    def _check(self) -> PlannedSnapshots:
        """Return the plan's decisions about snapshots. Refuse decisions that differ from the plan's
        summary, and a store that must not be changed."""
        context = self._context
        with self._stages.stage("check"):
            context.check_clock()
            decided = plan_snapshots.read(context.storage, context.planned.snapshots.part)
            check_counted(context.planned, {}, decided)
            context.store.check()
            context.held.begin()
            self._writer.start()
        return decided
