"""Bugs of quarantine: setting aside, promises and purge."""

from __future__ import annotations

from tests.planted.bug import Bug, Change

PROMISES = "tests/collect/quarantine/test_promises.py"
WINDOWS = "tests/collect/quarantine/test_windows.py"
NO_COMMITS = Change(
    "reclaim.run.roots.promises",
    right="    if not promised.num_rows:\n",
    wrong="    if True:\n",
)
DETOURS = "tests/collect/history/test_detours.py"
COMMITS = "tests/collect/quarantine/test_promised_commits.py"
BROKEN = "tests/collect/quarantine/test_promised_broken.py"
LATE = "tests/collect/apply/test_late_tasks.py"
PURGE_BEGUN = "tests/collect/quarantine/test_purge_begun.py"
RECORD = "reclaim.run_record"

BUGS: dict[str, Bug] = {
    "a window is shortened unasked": Bug(
        "reclaim.run.sweep.removal",
        right="        until = max(until, promised.until)\n",
        wrong="        until = until\n",
        test=f"{WINDOWS}::test_a_window_is_not_shortened_unasked[sweep data]",
    ),
    "a window that came to nothing is shortened": Bug(
        "reclaim.run.apply.first_record",
        right="    return None if earlier is None else earlier.promised\n",
        wrong="    return None if earlier is None else earlier.quarantine\n",
        test=f"{WINDOWS}::test_a_window_is_not_shortened_unasked[before promote]",
    ),
    "what was set aside promises nothing at home": Bug(
        "reclaim.catalog.collection.roots.promised",
        right="commit_rows.c.state.in_(TAKEN),\n            commit_rows.c.metarange",
        wrong='commit_rows.c.state == "condemned",\n            commit_rows.c.metarange',
        test=f"{COMMITS}::test_what_was_too_young_to_be_set_aside_is_not_taken[deletes]",
        sequence="a part of a commit that counts as set aside",
    ),
    "what commits in quarantine need is asked for at home only": Bug(
        "reclaim.engine.tasks.promised",
        right="    for quarantine in sorted(asides):\n",
        wrong="    for quarantine in ():\n",
        test=f"{COMMITS}::test_what_was_in_an_open_partition_is_not_taken",
    ),
    "a promised container of a newer version protects nothing": Bug(
        "reclaim.engine.tasks.promised",
        right="NOT_THERE = (Corrupt, NotFound)\n",
        wrong="NOT_THERE = (Corrupt, NotFound, Exception)\n",
        test=f"{BROKEN}::test_a_promised_container_of_a_newer_version_stops_the_run",
    ),
    "a promised container that is away protects nothing": Bug(
        "reclaim.run.roots.promises",
        right="    if needed.unread.count:\n",
        wrong="    if needed.unread.count > 1:\n",
        test=f"{BROKEN}::test_a_promised_container_that_cannot_be_read_stops_others[away-range]",
    ),
    "a purge deletes before its run stops to promise": Bug(
        "reclaim.run.purge.purge",
        right="            self.run = _note_begun(self.store, self.held, self.run)\n",
        wrong="            pass\n",
        test=f"{PURGE_BEGUN}::test_a_purge_that_stops_at_a_changed_file_holds_up_no_other_run",
    ),
    "a run that is being purged takes the promises of others with it": Bug(
        "reclaim.run.roots.promises",
        right="if run.undoable and run.id != besides}\n",
        wrong="if run.undoable and run.id != besides}\n"
        "    if any(run.purging for run in _promising(store)):\n        return seen\n",
        test=f"{PURGE_BEGUN}::test_what_another_run_promised_stays",
    ),
    "a run of which a purge has begun to delete is undone": Bug(
        RECORD,
        right="    Phase.PURGING: (_PURGE_BEGUN, _PURGE_BEGUN, _BEING_PURGED, None, None),\n",
        wrong="    Phase.PURGING: (_PURGE_BEGUN, _PURGE_BEGUN, None, None, None),\n",
        test=f"{PURGE_BEGUN}::test_a_purge_that_died_before_it_deleted_anything",
    ),
    "a commit that no ref reaches holds what an undo brings back": Bug(
        "reclaim.catalog.collection.undo.undoing",
        right="returned = dropped | restorable",
        wrong="returned = set[str]()",
        test=f"{DETOURS}::test_what_hangs_on_an_edited_commit_that_no_ref_reaches_is_held",
    ),
    "a promised metarange that is away is not counted": Bug(
        "reclaim.engine.tasks.promised",
        right="            detail = UNREAD if listed is None else NO_READ\n",
        wrong="",
        test=f"{BROKEN}"
        "::test_a_promised_container_that_cannot_be_read_stops_others[away-metarange]",
    ),
    "a purge of one run ends every quarantine": Bug(
        "reclaim.run.purge.purge",
        right="if run_id is None else run.id == run_id)",
        wrong="if run_id is None else True)",
        test=f"{BROKEN}::test_a_promised_container_that_is_lost_and_the_way_out",
    ),
    "a plan without a record takes its own promise for another's": Bug(
        "reclaim.run.apply.trust",
        right="besides=planned.run, ",
        wrong="",
        test=f"{COMMITS}::test_a_plan_without_a_record_goes_on_with_what_it_promised",
    ),
    "commits are taken over whether they are whole or not": Bug(
        "reclaim.run.apply.condemning",
        right="return find_whole(store, context.engine, left, place, opener=context.opener)",
        wrong="return list(left)",
        test=f"{COMMITS}"
        "::test_a_commit_that_is_broken_is_not_promised_and_its_child_is[embedded-deleted]",
    ),
    "the store is listed between the read and the first delete": Bug(
        "reclaim.run.apply.apply_plan",
        right="        seen, candidates = self._confirm(decided, seen, now)\n",
        wrong="        seen, candidates = self._confirm(decided, seen, now)\n"
        "        left_whole = find_left_whole(self._context)\n",
        test=f"{COMMITS}::test_the_store_is_listed_for_them_before_the_roots_are_read",
    ),
    "commits are taken over after their objects": Bug(
        "reclaim.run.apply.apply_plan",
        right="if left_whole and isinstance(held, HeldQuarantine):",
        wrong="if False and isinstance(held, HeldQuarantine):",
        test=f"{COMMITS}"
        "::test_whole_commits_of_a_run_that_died_come_back_with_the_run_that_takes_them",
    ),
    "the record of a run of an older plan is not found": Bug(
        "reclaim.run.plan.plan_file",
        right='    body = _body(storage, Place(storage.url, ""))\n',
        wrong='    body = _body(storage, Place(storage.url, ""))\n'
        '    read(storage, Place(storage.url, ""))\n',
        test="tests/collect/plan/test_plan_snapshots.py::test_a_run_of_an_older_plan_can_be_undone",
    ),
    "a run called purged before its objects are gone": Bug(
        "reclaim.run.purge.purge",
        right="""    assert removal is not None
""",
        wrong="""    assert removal is not None
    held.finish(replace(run, phase=Phase.PURGED))
""",
        test="tests/collect/apply/test_crash.py::test_a_purge_that_dies_at_any_step[embedded]",
    ),
    "a run takes over the commits of one that did not finish": Bug(
        "reclaim.stores.catalog.held",
        right="collect(self._workspace, self.lock, ids, exclude_runs=self._undoable())",
        wrong="collect(self._workspace, self.lock, ids)",
        test=f"{PROMISES}::test_a_run_that_died_before_it_settled_keeps_its_commits[moves]",
        sequence="an apply that died before it settled, and a shorter window",
    ),
    "what an unfinished undo brought back is anybody's": Bug(
        "reclaim.run.roots.promises",
        right="if run.purging or (quarantine.removal != MARKED and not run.unfinished):",
        wrong="if (not run.unfinished or run.undoing) and quarantine.removal != MARKED:",
        test=f"{PROMISES}::test_what_a_cut_off_undo_brought_back_is_not_taken",
        sequence="an undo that was cut off, and a collection",
        besides=(NO_COMMITS,),
    ),
    "what an unfinished run is about to take is anybody's": Bug(
        RECORD,
        right="        return self.phase in (*EARLY, Phase.PARTIAL, Phase.UNDOING) and (",
        wrong="        return self.phase is Phase.UNDOING and (",
        test=f"{WINDOWS}::test_a_list_of_what_was_intended_that_is_lost[missing]",
    ),
    "what is intended is written down after the first object went": Bug(
        "reclaim.run.apply.applying",
        drops="Applying._intend: intend",
        test=f"{PROMISES}::test_an_undo_does_not_go_by_a_listing",
        sequence="a listing that is not complete",
    ),
    "anything of the right size at a home is taken for what was there": Bug(
        "reclaim.engine.tasks.restoring",
        right="elif copy is not None and not storage.same(home, target.address):",
        wrong="elif copy is not None and copy.size != target.size:",
        test=f"{PROMISES}::test_a_foreign_object_at_a_home_stops_nothing_else[embedded-same]",
        sequence="other bytes at a home",
    ),
    "what lies where nothing came back counts as there": Bug(
        "reclaim.run.undo.undo_run",
        right="not_back=journal.own_parts() if failed else (),",
        wrong="not_back=(),",
        test=f"{PROMISES}::test_a_foreign_object_at_a_home_stops_nothing_else[embedded-other]",
        sequence="other bytes at a home",
    ),
    "what is in quarantine is believed without its identity": Bug(
        "reclaim.engine.tasks.quarantine",
        right="if kept.size != target.size or not own:",
        wrong="if kept.size != target.size:",
        test=f"{PROMISES}::test_other_bytes_in_quarantine_are_neither_brought_back_nor_purged",
    ),
    "the journal goes before the window ends": Bug(
        "reclaim.run.roots.promises",
        right="for rows in (*promised_rows, _record(store, run)):",
        wrong="for rows in promised_rows:",
        test=f"{PROMISES}::test_the_journal_stays_as_long_as_the_window",
    ),
    "a run that is done promises nothing more": Bug(
        "reclaim.run.roots.promises",
        right="    if not promised.num_rows:\n",
        wrong="    if True:\n",
        test=f"{WINDOWS}::test_a_commit_of_which_a_run_took_a_part_is_its_own[deletes]",
        sequence="a part of a commit, and a collection",
    ),
    "any plan in its place is the run's": Bug(
        "reclaim.run.sweep.removal",
        right="if planned.run != run.id or ",
        wrong="if ",
        test=f"{WINDOWS}::test_another_plan_in_its_place_is_not_the_run_s",
    ),
    "a purge goes by any clock": Bug(
        "reclaim.run.purge.purge",
        drops="purge: check_clock",
        test=f"{WINDOWS}::test_a_purge_by_a_clock_that_is_ahead",
    ),
    "a copy that came back is not written down": Bug(
        "reclaim.engine.tasks.restoring",
        right="        notes = (self._returned(storage, item) for item in prepared)",
        wrong="        notes = (self._returned(storage, item) for item in prepared[:0])",
        test=f"{WINDOWS}::test_an_undo_that_dies_where_every_write_has_a_new_etag[kept]",
    ),
    "anything of the right size counts as brought back": Bug(
        "reclaim.engine.tasks.restoring",
        right="return identity_of(storage, there) in target.identity.split()",
        wrong="return bool(target.identity)",
        test=f"{WINDOWS}::test_other_bytes_where_every_write_has_a_new_etag",
    ),
    "what no journal has is renamed without a note": Bug(
        "reclaim.engine.tasks.restoring",
        drops="FromQuarantine.page: _note_unknown",
        test=f"{WINDOWS}::test_other_bytes_written_over_what_no_journal_has",
    ),
    "what was set aside need not last": Bug(
        "reclaim.engine.tasks.quarantine",
        right="            if result.outcome == QUARANTINED\n",
        wrong="            if False\n",
        test=f"{WINDOWS}::test_what_is_set_aside_is_flushed",
    ),
    "what was moved after an undo stays aside": Bug(
        "reclaim.engine.tasks.quarantine",
        right="if taken.outcome == QUARANTINED and not in_time():",
        wrong="if False:",
        test=f"{LATE}::test_what_is_moved_after_an_undo_is_put_back",
    ),
    "what is late is put back although another apply counts on it": Bug(
        "reclaim.engine.tasks.quarantine",
        right="if look(storage, self.undo_begun) is None or ",
        wrong="if ",
        test=f"{LATE}::test_what_another_apply_counted_stays_aside",
    ),
    "the source of a copy goes however long the copy took": Bug(
        "reclaim.storage.objects",
        drops="ObjectStorage.move: last_check",
        test=f"{LATE}::test_a_copy_that_took_too_long_is_not_followed_by_a_delete",
    ),
    "one by one there is always time": Bug(
        "reclaim.engine.tasks.deleting",
        right="deleter.take_one(storage, target, in_time)",
        wrong="deleter.take_one(storage, target, lambda: True)",
        test=f"{LATE}::test_one_by_one_nothing_is_taken_too_late",
    ),
    "one object in the way holds up every commit": Bug(
        "reclaim.run.undo.undo_run",
        right="            whole = find_whole(\n",
        wrong="            whole = [] if failed else find_whole(\n",
        sequence="other bytes at a home",
    ),
    "what an apply that ended halfway left is anybody's": Bug(
        RECORD,
        right="        return self.phase in (*EARLY, Phase.PARTIAL, Phase.UNDOING) and (",
        wrong="        return self.phase is Phase.UNDOING and (",
        sequence="an apply that ended halfway, and a collection",
        besides=(NO_COMMITS,),
    ),
    "a repeated apply tells only what it did itself": Bug(
        "reclaim.run.record.journal",
        right="            total.add(outcome.without(FAILED))",
        wrong="            pass",
        sequence="an apply and an undo that were repeated",
    ),
}
