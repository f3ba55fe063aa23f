"""Applying a plan that edits the history and deletes nothing.

Nothing is condemned and nothing is swept, so no engine is needed. The edit is provisional until the
run is recorded as done: an end of any kind takes it back, or leaves that to whoever has the lock
next.
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
    """One apply of such a plan."""

    def __init__(self, context: ApplyContext) -> None:
        super().__init__(context)
        self._editing = Editing(context, self._writer)

    def _apply(self) -> Applied:
        decided = self._check()
        with self._stages.stage("expire") as expiring:
            expiring.facts["edited"] = self._editing.edit(decided).reparented
            # What the store's library took away with it, and that nobody has condemned.
            self._context.held.abandon()
        with self._stages.stage("record"):
            applied = self._result()
            self._write_result(applied)
            return self._end(applied)

    def _has_changed(self) -> bool:
        return self._editing.has_edited()

    def _take_back(self) -> Phase:
        if self._record.phase is Phase.DONE:
            # The edit stands if that was recorded, which an error need not tell.
            return Phase.DONE
        return self._editing.take_back(Phase.STOPPED)

    def _check(self) -> PlannedSnapshots:
        """The decisions of the plan about snapshots; refused unless they are what its summary
        says, or if the store must not be changed."""
        context = self._context
        with self._stages.stage("check"):
            context.check_clock()
            decided = plan_snapshots.read(context.storage, context.planned.snapshots.part)
            check_counted(context.planned, {}, decided)
            context.store.check()
            context.held.begin()
            self._writer.start()
        return decided
