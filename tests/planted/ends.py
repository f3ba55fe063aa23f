"""Bugs in how runs end: locks, partial ends, marks that are left over, edits that were made."""

from __future__ import annotations

from tests.planted.bug import Bug

EDITS_IN_TURN = "tests/collect/history/test_edits_in_turn.py"
EDIT_THEN_STOP = "tests/collect/history/test_edit_then_stop.py"
LEFT_OVER = "tests/collect/history/test_left_over.py"
LOCK_LEFT = "tests/collect/locks/test_lock_left.py"
PARTIAL = "tests/collect/apply/test_partial.py"
RELEASED = "tests/collect/locks/test_lock_released.py"
LATE = "tests/collect/apply/test_late_engine.py"


BUGS: dict[str, Bug] = {
    "a lock released while its holder runs": Bug(
        "reclaim.lock",
        right="        if why := self.why_not_released():",
        wrong='        if why := "":',
        test=f"{RELEASED}::test_a_running_process_keeps_its_lock[catalog]",
    ),
    "a lock released while tasks of a dead driver run": Bug(
        "reclaim.process",
        right="        for _ in range(2):",
        wrong="        for _ in range(0):",
        test=f"{RELEASED}::test_a_process_that_works_for_the_dead_one_keeps_its_lock[catalog]",
    ),
    "a lock released from another machine": Bug(
        "reclaim.process",
        right="        if self.boot != current.boot or self.namespace != current.namespace:",
        wrong="        if not current:",
        test=f"{RELEASED}::test_what_this_machine_cannot_know_keeps_its_lock[catalog-boot]",
    ),
    "a lock released while executors elsewhere work": Bug(
        "reclaim.process",
        right="        if self.remote_work:",
        wrong="        if not current:",
        test=f"{RELEASED}::test_what_this_machine_cannot_know_keeps_its_lock[catalog-remote]",
    ),
    "a lock that does not note that executors elsewhere work": Bug(
        "reclaim.lock",
        right="        if Process.current() != self._process:",
        wrong="        if self._process is None:",
        test=f"{RELEASED}::test_remote_work_is_recorded_before_it_begins",
    ),
    "a lock released that changed since it was read": Bug(
        "reclaim.catalog.collection.locks",
        right="        if row is None or _state(row).version != seen.version:",
        wrong="        if row is None:",
        test=f"{RELEASED}::test_a_lock_that_changed_since_is_not_released[catalog]",
    ),
    "a sidecar's lock released that changed since it was read": Bug(
        "reclaim.stores.sidecar.lock",
        right=" or str(state.number) != seen.version:",
        wrong=":",
        test=f"{RELEASED}::test_a_lock_that_changed_since_is_not_released[sidecar]",
    ),
    "a released lock free before the last request has ended": Bug(
        "reclaim.catalog.collection.locks",
        right="        expires_at = min(now, row.expires_at)",
        wrong="        expires_at = min(now, row.expires_at) - REQUEST // MICROSECOND",
        test=f"{RELEASED}::test_a_lock_of_a_killed_process_is_free_after_a_request[catalog]",
    ),
    "an apply that holds its lock while Spark starts": Bug(
        "reclaim.run.apply.apply_plan",
        drops="apply_plan: start",
        test=f"{LATE}::test_no_lock_is_held_while_an_engine_starts",
    ),
    "an undo that holds its lock while Spark starts": Bug(
        "reclaim.run.undo.undo_run",
        drops="undo_run: start",
        test=f"{LATE}::test_no_lock_is_held_while_an_engine_starts",
    ),
    "a purge that holds its lock while Spark starts": Bug(
        "reclaim.run.purge.purge",
        right="    engine.start()\n",
        wrong="",
        test=f"{LATE}::test_no_lock_is_held_while_an_engine_starts",
    ),
    "the lock given back while tasks may be at work": Bug(
        "reclaim.lock",
        right="            if self._tasks_until is None:",
        wrong="            if self.run_id:",
        test=f"{LOCK_LEFT}::test_an_undo_waits_for_the_tasks_of_an_apply[embedded]",
    ),
    "a lock left without the time of a request": Bug(
        "reclaim.lock",
        right="self.leave(self._tasks_until + REQUEST - self._clock.now())",
        wrong="self.leave(self._tasks_until - REQUEST - self._clock.now())",
        test=f"{LOCK_LEFT}::test_the_tasks_stop_before_the_lock_is_free",
    ),
    "a failed wave forgotten": Bug(
        "reclaim.lock",
        right="            if ended():",
        wrong="            if ended() is not None:",
        test=f"{LOCK_LEFT}::test_whatever_ends_a_wave[TypeError]",
    ),
    "an end after promote that says that nothing was changed": Bug(
        "reclaim.run.record.interrupted",
        right="        if not changed():",
        wrong="        if isinstance(error, ReclaimError):",
        test=f"{PARTIAL}::test_a_database_that_stays_away",
    ),
    "a bug after promote leaves the run started": Bug(
        "reclaim.run.apply.applying",
        right="            except BaseException as error:",
        wrong="            except KeyboardInterrupt as error:",
        test=f"{PARTIAL}::test_whatever_stops_an_apply_after_promote[a bug-sweep range]",
    ),
    "what may have been promoted counts as stopped": Bug(
        "reclaim.run.apply.apply_plan",
        right="        except LockLost:\n            self._writer.not_promoted()",
        wrong="        except Exception:\n            self._writer.not_promoted()",
        test=f"{PARTIAL}::test_nor_can_the_store_be_asked[after promote]",
    ),
    "a partial run that counts as stopped after a second try": Bug(
        "reclaim.run.apply.apply_plan",
        right="partial = self._record.phase is not Phase.STARTED or self._context.begun",
        wrong="partial = self._writer.may_have_promoted",
        test=f"{PARTIAL}::test_a_second_apply_that_stops_early_leaves_the_run_partial",
    ),
    "marks of a run that works taken for left over": Bug(
        "reclaim.catalog.collection.condemn.leftovers",
        right="        with locks.hold(workspace, new_uid()) as lock:",
        wrong="""        class lock:
            assure = staticmethod(lambda _connection: None)
        if lock:""",
        test=f"{LEFT_OVER}::test_marks_of_a_run_that_works_are_its_own[embedded]",
    ),
    "marks that stay until an apply has work to do": Bug(
        "reclaim.stores.catalog.store",
        drops="CatalogStore.clean: release",
        test=f"{LEFT_OVER}::test_a_gc_with_nothing_to_do[embedded]",
    ),
    "an undo of an expiration that marks refuse": Bug(
        "reclaim.run.undo.undo_edit",
        drops="undo_edit: begin",
        test=f"{LEFT_OVER}::test_an_undo_of_an_expiration[embedded]",
    ),
    "an undo of what was deleted": Bug(
        "reclaim.catalog.collection.undo.undoing",
        right="        if condemned and not done:\n",
        wrong="        if not run_id:\n",
        test=f"{EDIT_THEN_STOP}::test_one_that_condemned_something_cannot_be_undone",
    ),
    "what a later run edited counts as somebody else's": Bug(
        "reclaim.catalog.collection.undo.taking_back",
        right="            if editor is None:",
        wrong="            if editor is None or run_id:",
        test=f"{EDITS_IN_TURN}::test_a_quarantine_and_an_expiration_the_older_first",
    ),
    "a ref that a later run deleted taken back before that run": Bug(
        "reclaim.catalog.collection.undo.editors",
        right="            runs.c.started_at > to_micros(run.started_at),",
        wrong="            runs.c.started_at < 0,",
        test=f"{EDITS_IN_TURN}::test_a_tag_that_was_deleted_twice",
    ),
    "an edit that stays when its run stops": Bug(
        "reclaim.run.apply.editing",
        right="        if not self._writer.record.promoted and may_have_edited:\n",
        wrong="        if self._writer.may_have_promoted and may_have_edited:\n",
        test=f"{EDIT_THEN_STOP}::test_one_that_stops_takes_its_edit_back[after condemn-sets aside]",
    ),
    "an edit that stays when its run is killed": Bug(
        "reclaim.catalog.collection.condemn.leftovers",
        drops="release_under: roll_back_left_over",
        test=f"{EDIT_THEN_STOP}::test_one_that_was_killed_is_rolled_back_by_the_next_run"
        "[before promote-sets aside]",
    ),
    "an edit without marks that is not noticed": Bug(
        "reclaim.catalog.collection.condemn.leftovers",
        right="        if provisional.find_editors(connection, workspace.repo_uid):\n",
        wrong="        if False:\n",
        test=f"{EDIT_THEN_STOP}::test_a_tag_that_was_made_anew_is_somebody_elses"
        "[rolled back first-elsewhere]",
    ),
    "a run that set something aside rolled back": Bug(
        "reclaim.catalog.collection.edit.provisional",
        right="        if run.is_provisional and not has_condemned(",
        wrong="        if not has_condemned(",
        test=f"{EDIT_THEN_STOP}::test_a_quarantine_without_dead_commits_is_not_forgotten",
    ),
    "a run that condemned something rolled back": Bug(
        "reclaim.catalog.collection.edit.provisional",
        right="        if run.is_provisional and not has_condemned(connection, repo_uid, run.id)",
        wrong="        if run.is_provisional",
        test=f"{EDIT_THEN_STOP}::test_what_was_promoted_is_not_rolled_back[after promote]",
    ),
    "an edit that stays and is not told": Bug(
        "reclaim.run.apply.editing",
        right="        return self._edited or self._library_notes.edited\n",
        wrong="        return self._library_notes.edited\n",
        test=f"{EDIT_THEN_STOP}::test_an_edit_that_stays_is_told",
    ),
}
