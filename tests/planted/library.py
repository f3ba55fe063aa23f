"""Bugs of edits that a store's own library makes: what was reviewed, and what was done."""

from __future__ import annotations

from tests.planted.bug import Bug

EXPIRES = "tests/stores/test_shelf_expires.py"
RELEASED = "tests/stores/test_shelf_released.py"

BUGS: dict[str, Bug] = {
    "what a library took beyond the plan is condemned": Bug(
        "reclaim.run.apply.editing",
        right="if self._library_edit is None or self._context.store.deleted:\n",
        wrong="if self._context.run:\n",
        test=f"{EXPIRES}::test_more_than_was_predicted_waits_for_a_plan",
    ),
    "what a library took beyond the plan is spared without what it needs": Bug(
        "reclaim.run.apply.editing",
        right="return decide_seen(KEEPS_ALL, seen, spared=self._unplanned) if self._unplanned",
        wrong="import dataclasses\n        live = now.live | self._unplanned\n"
        "        return dataclasses.replace(now, live=live) if self._unplanned",
        test=f"{EXPIRES}::test_what_it_took_too_much_keeps_what_it_needs",
    ),
    "a library is asked for what nobody reviewed": Bug(
        "reclaim.run.expire.library_edit",
        right="    if unplanned or refs:\n",
        wrong="    if refs:\n",
        test=f"{EXPIRES}::test_a_history_that_changed_is_planned_again",
    ),
    "a library deletes refs that the plan does not name": Bug(
        "reclaim.run.expire.library_edit",
        right="    if unplanned or refs:\n",
        wrong="    if unplanned:\n",
        test=f"{EXPIRES}::test_a_ref_that_the_plan_leaves_is_not_deleted",
    ),
    "a rule that a library cannot express is left out": Bug(
        "reclaim.run.expire.library_edit",
        right="    if not missing:\n",
        wrong="    if requested:\n",
        test=f"{EXPIRES}::test_a_rule_that_the_library_cannot_express[policy0-keep_last 3]",
    ),
    "a library that fails counts as one that did nothing": Bug(
        "reclaim.run.expire.library_notes",
        right="            self.edited = True\n",
        wrong="",
        test=f"{EXPIRES}::test_a_library_that_fails_halfway[True-deletes]",
    ),
    "what a library has edited counts as taken back": Bug(
        "reclaim.run.undo.undo_edit",
        right="        if run.edit.by_library and _is_irreversible(store, held):\n",
        wrong="        if not run.id:\n",
        test=f"{EXPIRES}::test_a_library_that_fails_halfway[True-deletes]",
    ),
    "what a library released for a run that was killed is taken by others": Bug(
        "reclaim.run.roots.promises",
        right="released |= still_promised(store, run)",
        wrong="released |= frozenset()",
        test=f"{RELEASED}::test_what_a_killed_run_released_is_left_by_others[False]",
    ),
    "what a library released before it failed is taken by others": Bug(
        "reclaim.run.apply.editing",
        right="        if self._promises_library_edit():\n",
        wrong="        if not self._context.run:\n",
        test=f"{RELEASED}::test_what_a_failed_library_released_is_left_by_others",
    ),
    "an undo of a run that was killed holds nothing": Bug(
        "reclaim.run.undo.undo_run",
        right="held = hold_released(store, self._held, self._run)",
        wrong="held = ('the history',)",
        test=f"{RELEASED}::test_an_undo_of_a_killed_run_holds_what_was_released",
    ),
    "a run that is being undone promises nothing any more": Bug(
        "reclaim.run.expire.released",
        right="if run.quarantine is None or not isinstance(store, Quarantines):",
        wrong="if run.quarantine is None or run.undoing:",
        test=f"{RELEASED}::test_an_undo_that_dies_holds_it_too",
    ),
    "a run promises nothing of what a lease spared once it has promoted": Bug(
        "reclaim.run.expire.released",
        right="if run.quarantine is None or not isinstance(store, Quarantines):",
        wrong="if run.quarantine is None or run.promoted:",
        test=f"{RELEASED}::test_what_a_lease_spared_is_promised_for_the_window",
    ),
    "what was predicted to stay is taken if the plan names it": Bug(
        "reclaim.run.expire.library_notes",
        right="reviewed = frozenset(dead) - staying",
        wrong="reviewed = frozenset(dead)",
        test=f"{RELEASED}::test_what_was_predicted_to_stay_is_not_taken[False]",
    ),
    "an apply that goes on forgets what was predicted": Bug(
        "reclaim.run.expire.released",
        right="Released(self.reviewed & reviewed, ",
        wrong="Released(reviewed, ",
        test=f"{RELEASED}::test_what_was_predicted_to_stay_is_not_taken[True]",
    ),
    "a library that found other refs counts as one that edited": Bug(
        "reclaim.run.expire.library_edit",
        right="if held.expire_by_library(expiration, seen):",
        wrong="if held.expire_by_library(expiration, seen) in (True, False):",
        test=f"{RELEASED}::test_a_tag_that_the_library_would_delete_and_nobody_saw",
    ),
    "an edit that a library did not make counts as made": Bug(
        "reclaim.run.expire.library_notes",
        right="        self.edited = False\n        self._writer.write(edit=before)\n",
        wrong="        self._writer.write(edit=before)\n",
        test=f"{RELEASED}::test_a_tag_that_the_library_would_delete_and_nobody_saw",
    ),
    "an undo forgets what a library took too much": Bug(
        "reclaim.run.apply.editing",
        drops="Editing.compare: note_unplanned",
        test=f"{RELEASED}::test_an_undo_holds_what_the_library_took_too_much",
    ),
    "what the rules keep goes when a library cuts it off": Bug(
        "reclaim.run.plan.decide",
        right="if predict is not None else frozenset()\n",
        wrong="if predict is None else frozenset()\n",
        test=f"{EXPIRES}::test_clocks_that_run_backwards",
    ),
    "a ref above what the rules keep is deleted": Bug(
        "reclaim.history.expire",
        right="return ref not in needed and deleted(ref, tip)",
        wrong="return deleted(ref, tip)",
        test="tests/history/test_edits.py::test_a_tag_above_what_is_kept_stays[t-deleted0]",
    ),
    "what an earlier run broke is promised by the next": Bug(
        "reclaim.stores.sidecar.held",
        right="QUARANTINED: lists.get(QUARANTINED, {}) | taken,",
        wrong="QUARANTINED: lists.get(QUARANTINED, {}) | taken\n"
        "                | self._condemned_by_others(ids, excluding={run, *self._undoable()}),",
        test=f"{RELEASED}::test_what_an_earlier_run_broke_is_not_promised",
    ),
    "a run ends before the store has written what came back": Bug(
        "reclaim.stores.sidecar.held",
        right="        self._after_restore(run_id, back)\n",
        wrong="        self._end(run_id)\n        self._after_restore(run_id, back)\n",
        test=f"{RELEASED}::test_an_undo_that_dies_while_it_writes_can_be_repeated",
    ),
    "a plan does not say what an undo leaves": Bug(
        "reclaim.run.plan.plan_summary",
        right="if edit is not None and isinstance(store, ExpiresItself)",
        wrong="if edit is None and isinstance(store, ExpiresItself)",
        test=f"{EXPIRES}::test_a_plan_says_what_undo_cannot",
    ),
    "what an undo brings back is held for as long as a lease can be taken": Bug(
        "reclaim.stores.sidecar.leases",
        right="now + SAFETY.after_undo), now + LONGEST_BY_UNDO)",
        wrong="now + SAFETY.after_undo), now + LONGEST)",
        test=f"{RELEASED}::test_it_is_held_for_all_of_a_long_window[True]",
    ),
    "what an undo brings back is held for a day": Bug(
        "reclaim.stores.sidecar.leases",
        right="max(until or now, now + SAFETY.after_undo)",
        wrong="now + SAFETY.after_undo",
        test=f"{EXPIRES}::test_what_an_undo_brings_back_is_held_for_the_window",
    ),
    "what an undo that died was about to hold stops every plan": Bug(
        "reclaim.stores.sidecar.leases",
        right='if lease.snapshot not in waiting.get(lease.undone_run or "", ())',
        wrong="if lease.snapshot not in ()",
        test=f"{RELEASED}::test_an_undo_that_dies_while_it_holds_stops_no_plan",
    ),
    "a purge leaves what an undo that died was about to hold": Bug(
        "reclaim.stores.sidecar.held",
        drops="HeldSidecar.forget: release_returned",
        test=f"{RELEASED}::test_a_purge_after_an_undo_that_died_while_it_held",
    ),
    "a purge releases what a partial undo brought back": Bug(
        "reclaim.stores.sidecar.leases",
        right="if lease.undone_run == run_id and lease.snapshot in going:",
        wrong="if lease.undone_run == run_id:",
        test=f"{RELEASED}::test_a_purge_after_a_partial_undo_leaves_what_came_back",
    ),
}
