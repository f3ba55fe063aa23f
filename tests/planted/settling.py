"""Bugs of what becomes of a lifecycle run that was cut off, and of undos beside lifecycle rules."""

from __future__ import annotations

from tests.planted.bug import Bug

SETTLING = "reclaim.run.lifecycle.settling"
UNFINISHED = "reclaim.run.lifecycle.unfinished"
GIVING_UP = "reclaim.run.lifecycle.giving_up"
TEST = "tests/lifecycle/test_settling.py"
LATER = "tests/lifecycle/test_later.py"
TOGETHER = "tests/lifecycle/test_together.py"
RELEASED = "tests/lifecycle/test_released.py"
LATE = f"{TEST}::test_a_task_that_wakes_up_after_an_undo_deletes_nothing"

BUGS: dict[str, Bug] = {
    "what is gone is released with what is at home": Bug(
        SETTLING,
        right='        at_home = rows.filter(pc.equal(rows.column("outcome"), AT_HOME))\n',
        wrong="        at_home = rows\n",
        test=f"{TEST}::test_a_run_that_was_cut_off_can_be_given_up",
    ),
    "what could not be brought back is released for what lies in its place": Bug(
        SETTLING,
        right="        over=excluded,\n",
        wrong="",
        test=f"{TEST}::test_what_an_undo_brought_back_is_of_use_whatever_it_could_not",
    ),
    "what an undo brought back in part stays gone": Bug(
        "reclaim.run.undo.undo_run",
        right="            if failed or restored.waits:\n                # Restored",
        wrong="            if False:\n                # Restored",
        test=f"{TEST}::test_what_an_undo_brought_back_is_of_use_whatever_it_could_not",
    ),
    "what a purge found at home stays gone": Bug(
        "reclaim.run.purge.purge",
        right="    if run.unfinished and has_claims(store, run.id):\n",
        wrong="    if False:\n",
        test=f"{TEST}::test_a_purge_of_a_run_that_was_cut_off_releases_what_is_at_home",
    ),
    "a purge leaves no note for late tasks": Bug(
        "reclaim.run.purge.purge",
        drops="_purge: note_undo_begun",
        test=f"{TEST}::test_a_task_that_wakes_up_after_a_purge_puts_back_what_it_moves",
    ),
    "a run is given up without a note for its late tasks": Bug(
        GIVING_UP,
        drops="_note: note_undo_begun",
        test=LATE,
    ),
    "a task that deletes does not look for an undo": Bug(
        "reclaim.run.lifecycle.applying",
        right="return until_undone(super()._deleter(), self._context.store, self._context.run)",
        wrong="return super()._deleter()",
        test=LATE,
    ),
    "a run that is being given up is finished": Bug(
        "reclaim.run_record",
        right="    Phase.UNDOING: (_UNDO_BEGUN, _UNDO_BEGUN, None, None, None),\n",
        wrong="    Phase.UNDOING: (None, None, None, None, None),\n",
        test=f"{TEST}::test_what_could_not_be_asked_for_stays_claimed",
    ),
    "the next run finishes one that is being given up": Bug(
        UNFINISHED,
        right="        if run.allows(Action.APPLY):\n",
        wrong="        if not run.purging:\n",
        test=f"{TEST}::test_what_could_not_be_asked_for_stays_claimed",
    ),
    "a run by rules that changed since is finished": Bug(
        UNFINISHED,
        right="        if not self._has_rules_of_now():\n",
        wrong="        if False:\n",
        test=f"{TEST}::test_rules_that_changed_since_are_not_overruled_by_a_run_that_was_cut_off",
    ),
    "a run beyond the limits is finished": Bug(
        UNFINISHED,
        right="        if (limits.objects is not None and objects > limits.objects) or (\n",
        wrong="        if False and (\n",
        test=f"{TEST}::test_limits_hold_for_a_run_that_was_cut_off[a run]",
    ),
    "a run by rules finishes another one without limits": Bug(
        "reclaim.run.gc",
        right="finish_unfinished(store, engine, limits=limits, ",
        wrong="finish_unfinished(store, engine, ",
        test=f"{TEST}::test_limits_hold_for_a_run_that_was_cut_off[after a collection]",
    ),
    "a refused run denies what was done before it": Bug(
        "reclaim.run.lifecycle.earlier_runs",
        right="            if self._runs:\n",
        wrong="            if False:\n",
        test=f"{TOGETHER}::test_a_refusal_tells_of_a_run_that_was_finished_before",
    ),
    "a run is finished by a damaged plan": Bug(
        UNFINISHED,
        drops="_finish: check_files",
        test=f"{TEST}::test_a_damaged_plan_of_a_run_that_was_cut_off_stops_no_later_run[objects]",
    ),
    "a checkpoint made during an undo counts": Bug(
        "reclaim.run.record.checkpoints",
        right="[run for run in runs if not run.undoing]",
        wrong="runs",
        test=f"{LATER}::test_a_checkpoint_made_during_an_undo_does_not_count",
    ),
    "the plan of a run that was cut off is collected": Bug(
        "reclaim.run.roots.promises",
        right="    for run in find_interrupted(store):\n",
        wrong="    for run in ():\n",
        test=f"{TEST}::test_the_plan_of_a_run_that_was_cut_off_is_not_collected",
    ),
    "a plan takes what an expiration released": Bug(
        "reclaim.run.lifecycle.planning",
        right="    takes_referenced = True\n",
        wrong="    takes_referenced = False\n",
        test=f"{RELEASED}::test_what_an_expiration_took_out_of_history_is_held[before the plan]",
    ),
    "an apply takes what was released since the plan": Bug(
        "reclaim.run.apply.context",
        right="takes_referenced=self.planned.lifecycle is not None",
        wrong="takes_referenced=False",
        test=f"{RELEASED}::test_a_branch_that_was_expired_while_a_plan_waited_holds",
    ),
}
