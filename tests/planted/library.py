"""Bugs of edits that a store's own library makes: what was reviewed, and what was done."""

from __future__ import annotations

from tests.planted.bug import Bug

EXPIRES = "tests/stores/test_shelf_expires.py"

BUGS: dict[str, Bug] = {
    "what a library took beyond the plan is condemned": Bug(
        "reclaim.run.apply",
        right="        if self._library_edit is None:\n            return now\n",
        wrong="        if self._run:\n            return now\n",
        test=f"{EXPIRES}::test_more_than_was_predicted_waits_for_a_plan",
    ),
    "what a library took beyond the plan is spared without what it needs": Bug(
        "reclaim.run.apply",
        right="return decide_seen(KEEPS_ALL, seen, spared=self._unplanned) if self._unplanned",
        wrong="return replace(now, live=now.live | self._unplanned) if self._unplanned",
        test=f"{EXPIRES}::test_what_it_took_too_much_keeps_what_it_needs",
    ),
    "a library is asked for what nobody reviewed": Bug(
        "reclaim.run.library_edit",
        right="    if unplanned or refs:\n",
        wrong="    if refs:\n",
        test=f"{EXPIRES}::test_a_history_that_changed_is_planned_again",
    ),
    "a library deletes refs that the plan does not name": Bug(
        "reclaim.run.library_edit",
        right="    if unplanned or refs:\n",
        wrong="    if unplanned:\n",
        test=f"{EXPIRES}::test_a_ref_that_the_plan_leaves_is_not_deleted",
    ),
    "a rule that a library cannot express is left out": Bug(
        "reclaim.run.library_edit",
        right="    if not missing:\n",
        wrong="    if asked:\n",
        test=f"{EXPIRES}::test_a_rule_that_the_library_cannot_express[policy0-keep_last 3]",
    ),
    "a library that fails counts as one that did nothing": Bug(
        "reclaim.run.apply",
        right="self._edited = self._facts[EDITED_BY_LIBRARY] = True",
        wrong="self._facts[EDITED_BY_LIBRARY] = True",
        test=f"{EXPIRES}::test_a_library_that_fails_halfway[True]",
    ),
    "what a library has edited counts as taken back": Bug(
        "reclaim.run.undo_edit",
        right="        if run.summary.get(EDITED_BY_LIBRARY):\n",
        wrong="        if run.summary.get('none'):\n",
        test=f"{EXPIRES}::test_a_library_that_fails_halfway[True]",
    ),
    "a plan does not say what an undo leaves": Bug(
        "reclaim.run.plan_summary",
        right="if edit is not None and isinstance(store, ExpiresItself)",
        wrong="if edit is None and isinstance(store, ExpiresItself)",
        test=f"{EXPIRES}::test_a_plan_says_what_undo_cannot",
    ),
    "what an undo brings back is held for a day": Bug(
        "reclaim.stores.sidecar.leases",
        right="max(until or now, now + SAFETY.after_undo)",
        wrong="now + SAFETY.after_undo",
        test=f"{EXPIRES}::test_what_an_undo_brings_back_is_held_for_the_window",
    ),
}
