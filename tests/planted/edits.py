"""Bugs of edits of the history: what is decided again, and what may still be taken back."""

from __future__ import annotations

from tests.planted.bug import Bug

ALONE = "tests/collect/history/test_edit_alone.py"
AGAIN = "tests/collect/apply/test_decided_again.py"
HELD = "tests/collect/quarantine/test_undo_held.py"
IN_TURN = "tests/collect/history/test_edits_in_turn.py"
MEANWHILE = "tests/collect/plan/test_plan_meanwhile.py"
HISTORY_ONLY = "tests/collect/history/test_history_only.py"
MERGED = "tests/collect/history/test_merge_after.py"
STOPPED = "tests/collect/history/test_edit_then_stop.py"

BUGS: dict[str, Bug] = {
    "an edit made as it was planned": Bug(
        "reclaim.run.expire.reviewed_edit",
        right="going = self.expired - decisions.kept - held_by_undo(history, seen.returned)",
        wrong="going = set(self.expired)",
        test=f"{AGAIN}::test_an_expiration_below_it_was_undone[deletes]",
    ),
    "an edit by the rules of now alone": Bug(
        "reclaim.run.expire.reviewed_edit",
        right="going = self.expired - decisions.kept - held_by_undo(history, seen.returned)",
        wrong="going = history.numbers.keys() - decisions.kept",
        test=f"{AGAIN}::test_what_the_plan_kept_in_a_history_stays_in_it",
    ),
    "an older plan takes what an undo brought back": Bug(
        "reclaim.run.expire.reviewed_edit",
        right="going = self.expired - decisions.kept - held_by_undo(history, seen.returned)",
        wrong="going = self.expired - decisions.kept",
        test=f"{HELD}::test_a_plan_from_before_the_undo_leaves_it",
    ),
    "rules take what an undo brought back": Bug(
        "reclaim.run.plan.decide",
        right="            decisions.kept | held_by_undo(history, leases),\n",
        wrong="            decisions.kept,\n",
        test=f"{HELD}::test_an_expiration_leaves_it_too[by_expire]",
    ),
    "the undo of an expiration holds nothing": Bug(
        "reclaim.catalog.collection.undo.undoing",
        right="_hold(connection, workspace, run_id, dropped, max(remaining, SAFETY.after_undo))",
        wrong="_hold(connection, workspace, run_id, (), max(remaining, SAFETY.after_undo))",
        test=f"{HELD}::test_an_expiration_leaves_it_too[by_expire]",
    ),
    "an undo holds for a day alone": Bug(
        "reclaim.catalog.collection.undo.undoing",
        right="        length = _window(connection, workspace, run_id)\n",
        wrong="        length = SAFETY.after_undo\n",
        test=f"{HELD}::test_the_next_nights_leave_what_came_back[embedded-by_gc]",
    ),
    "what a run removed while it was planned counts as damage": Bug(
        "reclaim.run.plan.planning",
        right="if not isinstance(error, MISSING_FILE_ERRORS) or not self._lost_live():",
        wrong="if error:",
        test=f"{MEANWHILE}::test_what_a_run_took_meanwhile_is_no_damage[embedded]",
    ),
    "damage counts as what a run removed": Bug(
        "reclaim.run.plan.planning",
        right="if not isinstance(error, MISSING_FILE_ERRORS) or not self._lost_live():",
        wrong="if not isinstance(error, MISSING_FILE_ERRORS):",
        test=f"{MEANWHILE}::test_damage_is_told_although_a_run_took_something_before",
    ),
    "a finished plan edits the history again": Bug(
        "reclaim.run.apply.apply_plan",
        right="        if earlier is not None and earlier.phase is Phase.DONE:\n",
        wrong="        if earlier is not None and not earlier.id:\n",
        test=f"{HISTORY_ONLY}::test_a_second_apply_does_nothing",
    ),
    "an edit that is recorded as done is taken back": Bug(
        "reclaim.run.apply.history_applying",
        right="        if self._record.phase is Phase.DONE:\n",
        wrong="        if not self._record.phase:\n",
        test=f"{HISTORY_ONLY}::test_one_that_may_have_been_recorded_stands",
    ),
    "an expiration that stops keeps its edit": Bug(
        "reclaim.run.apply.history_applying",
        right="        return self._editing.roll_back(Phase.STOPPED)\n",
        wrong="        return Phase.STOPPED\n",
        test=f"{HISTORY_ONLY}::test_one_that_stops_leaves_no_trace[after edit_history]",
    ),
    "an edit that nobody vouches for is made": Bug(
        "reclaim.run.apply.trust",
        right="    if edits or planned.history_only is not None:\n",
        wrong="    if not planned.run:\n",
        test=f"{HISTORY_ONLY}::test_who_vouches_for_it[nobody]",
    ),
    "an edit of some refs is made of what they reach by now": Bug(
        "reclaim.run.expire.reviewed_edit",
        right="            going &= _reached(history, self._planned_tips(history))\n",
        wrong="            pass\n",
        test=f"{HISTORY_ONLY}"
        "::test_a_ref_that_reaches_more_since_narrows_to_what_it_reached[merge]",
    ),
    "an expiration that is applied again keeps its first time": Bug(
        "reclaim.run.apply.first_record",
        right="        started_at=earlier.started_at if planned.history_only is None else now,\n",
        wrong="        started_at=earlier.started_at,\n",
        test=f"{HISTORY_ONLY}::test_an_apply_that_died_lies_above_what_came_before_it_was_repeated",
    ),
    "the time of a run is saved once": Bug(
        "reclaim.catalog.collection.records",
        right=', "started_at": to_micros(run.started_at)}',
        wrong="}",
        test=f"{HISTORY_ONLY}::test_an_apply_that_died_lies_above_what_came_before_it_was_repeated",
    ),
    "an edit of some refs is made of all": Bug(
        "reclaim.run.apply.editing",
        right="refs = {} if section is None else section.refs\n",
        wrong="refs: dict[str, str] = {}\n",
        test=f"{HISTORY_ONLY}::test_narrowed_to_a_ref",
    ),
    "an expiration decides on an edit that may be taken back": Bug(
        "reclaim.run.plan.history_only",
        right="    if seen.editor is not None:\n",
        wrong="    if seen.editor is not None and not seen.refs:\n",
        test=f"{AGAIN}::test_nobody_decides_on_an_edit_that_may_be_taken_back",
    ),
    "an expiration is undone in parts": Bug(
        "reclaim.catalog.collection.undo.undoing",
        right="in_parts=done and run.kind != EXPIRE",
        wrong="in_parts=done",
        test="tests/run/test_expire.py"
        "::test_undo_is_refused_once_something_is_being_collected[embedded]",
    ),
    "what the plan left in reach gets out of reach": Bug(
        "reclaim.run.expire.reviewed_edit",
        right="            lost = going & (released - self.released)\n",
        wrong="            lost = set()\n",
        test=f"{AGAIN}::test_what_the_plan_left_in_reach_stays_in_reach",
    ),
    "a branch that moved is deleted": Bug(
        "reclaim.run.expire.reviewed_edit",
        right="                deletable=self.delete_refs,\n",
        wrong="",
        test=f"{AGAIN}::test_a_branch_that_moved_is_not_deleted",
    ),
    "a ref made after the decision is not noticed": Bug(
        "reclaim.catalog.collection.edit.history_compare",
        right="commit_id == tips.get((RefKind.TAG, name))",
        wrong="commit_id",
        test=f"{AGAIN}::test_a_tag_that_was_made_since_holds_its_history[before edit_history]",
    ),
    "an apply that goes on decides on its own edit": Bug(
        "reclaim.run.apply.editing",
        right="        if self._context.begun and not self._writer.record.promoted:\n",
        wrong="        if self._context.begun and self._writer.record.promoted:\n",
        test=f"{AGAIN}::test_so_does_one_that_was_made_after_an_apply_was_killed",
    ),
    "a promote that was not saved counts as one": Bug(
        "reclaim.run.apply.editing",
        right="        if not self._writer.record.promoted and may_have_edited:\n",
        wrong="        if self._writer.record.phase is Phase.STARTED and may_have_edited:\n",
        test=f"{STOPPED}::test_a_promote_that_was_not_saved_did_not_happen"
        "[another writer-sets aside]",
    ),
    "an undo notes that it began before the edit is taken back": Bug(
        "reclaim.run.undo.undo_run",
        right="            if not self._run.promoted and isinstance(self._held, EditsHistory):",
        wrong="            if not self._run.id:",
        test=f"{STOPPED}::test_an_undo_of_it_that_is_cut_off[killed-before restore]",
    ),
    "an undo below an edit that hides it": Bug(
        "reclaim.catalog.collection.undo.taking_back",
        right="    if run is not None and not forget:",
        wrong="    if run is not None and forget:",
        test=f"{IN_TURN}::test_what_a_later_run_hides_waits_for_it[an expiration]",
    ),
    "an edit that a plan does not say": Bug(
        "reclaim.run.plan.decide",
        right="        return find_released(self.history, self.edit)\n",
        wrong="        return frozenset()\n",
        test=f"{ALONE}::test_a_plan_says_that_it_edits_although_a_lease_keeps_everything",
    ),
    "an edit that no result says": Bug(
        "reclaim.run.apply.editing",
        drops="Editing.edit: replace_edit",
        test=f"{ALONE}::test_so_does_the_result_and_the_record",
    ),
    "a run that only edited cannot be undone": Bug(
        "reclaim.run.undo.undo_edit",
        right="of_kind and run.allows(Action.UNDO)",
        wrong="of_kind and not run.finished",
        test=f"{ALONE}::test_it_is_undone_on_its_own",
    ),
    "a commit is hung on one that is gone": Bug(
        "reclaim.catalog.collection.undo.taking_back",
        right="        elif stands(connection, uid, old):\n",
        wrong="        elif old:\n",
        test=f"{ALONE}::test_what_is_gone_stays_gone_and_is_said",
    ),
    "an undo does not wait for the edit of a later collection": Bug(
        "reclaim.catalog.collection.undo.editors",
        right="    return run.phase == Phase.DONE and not gone_for_good(",
        wrong="    return not run.id and not gone_for_good(",
        test=f"{ALONE}::test_an_older_expiration_waits_for_it",
    ),
    "a base is trusted whatever was edited": Bug(
        "reclaim.catalog.refs.merge_bases",
        right="    if not edited:\n",
        wrong="    if base:\n",
        test=f"{MERGED}::test_a_base_that_went_is_not_replaced_by_an_older_one[collected]",
    ),
    "a base is looked for in the edited history twice": Bug(
        "reclaim.catalog.refs.merge_bases",
        right='written.get(row.id, "") if row.marked else row.parents',
        wrong="row.parents",
        test=f"{MERGED}::test_a_base_that_went_is_not_replaced_by_an_older_one[expired]",
    ),
    "a base that no side reaches is trusted": Bug(
        "reclaim.catalog.refs.merge_bases",
        right="return str(row.id) if stands else None",
        wrong="return str(row.id)",
        test=f"{MERGED}::test_a_base_that_went_is_not_replaced_by_an_older_one[expired]",
    ),
    "parents that were emptied count as none": Bug(
        "reclaim.catalog.refs.merge_bases",
        right="return None if row.state == CommitState.COLLECTED and not parents else parents",
        wrong="return parents",
        test=f"{MERGED}::test_what_earlier_versions_emptied_is_not_known[emptied]",
    ),
    "a history that was cut for good counts as the one that was written": Bug(
        "reclaim.catalog.collection.undo.undoing",
        right="old=old, new=parents, was_marked=was_marked",
        wrong="old=parents[1:], new=parents, was_marked=was_marked",
        test="tests/collect/quarantine/test_promised_broken.py::test_a_history_cut_twice_stays_marked",
    ),
    "a plan on top of an edit that may be taken back": Bug(
        "reclaim.run.plan.planning",
        right="        if seen.editor is not None and not",
        wrong="        if seen.editor == '' and not",
        test=f"{AGAIN}::test_nobody_decides_on_an_edit_that_may_be_taken_back",
    ),
}
