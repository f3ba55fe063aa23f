"""Bugs of quarantine: setting aside, undo and purge."""

from __future__ import annotations

from tests.planted.bug import Bug, Change

PROMISES = "tests/collect/test_promises.py"
MARKERS = "tests/collect/test_markers.py"
WINDOWS = "tests/collect/test_windows.py"
NEVER_COVERED = Change(
    "reclaim.engine.tasks.delete_markers",
    right="""        if kept is not None and kept.latest:
            # It was about""",
    wrong="""        if False:
            # It was about""",
)
NO_COMMITS = Change(
    "reclaim.run.promises",
    right="    if not promised.num_rows:\n",
    wrong="    if True:\n",
)
DETOURS = "tests/collect/test_detours.py"
COMMITS = "tests/collect/test_promised_commits.py"
BROKEN = "tests/collect/test_promised_broken.py"
PARENTS = "tests/collect/test_promised_parents.py"
VERSIONS = "tests/collect/test_foreign_versions.py"
DAMAGED_MARKERS = "tests/collect/test_damaged_markers.py"
LATE = "tests/collect/test_late_tasks.py"
PURGE_BEGUN = "tests/collect/test_purge_begun.py"

BUGS: dict[str, Bug] = {
    "a window is shortened unasked": Bug(
        "reclaim.run.removal",
        right="        until = max(until, promised.until)\n",
        wrong="        until = until\n",
        test=f"{WINDOWS}::test_a_window_is_not_shortened_unasked[sweep data]",
    ),
    "a window that came to nothing is shortened": Bug(
        "reclaim.run.applying.first_facts",
        right="        return earlier.quarantine or Quarantine.of_record(earlier.summary)\n",
        wrong="        return earlier.quarantine\n",
        test=f"{WINDOWS}::test_a_window_is_not_shortened_unasked[before promote]",
    ),
    "what was set aside promises nothing at home": Bug(
        "reclaim.catalog.collection.promised",
        right="commit_rows.c.state.in_(TAKEN),\n            commit_rows.c.metarange",
        wrong='commit_rows.c.state == "condemned",\n            commit_rows.c.metarange',
        test=f"{COMMITS}::test_what_was_too_young_to_be_set_aside_is_not_taken[deletes]",
        sequence="a part of a commit that counts as set aside",
    ),
    "what commits in quarantine need is asked for at home only": Bug(
        "reclaim.engine.tasks.promised",
        right="    for aside in sorted(asides):\n",
        wrong="    for aside in ():\n",
        test=f"{COMMITS}::test_what_was_in_an_open_partition_is_not_taken",
    ),
    "what commits under delete markers need is not asked for": Bug(
        "reclaim.engine.tasks.promised",
        right="        if not version.marker:\n",
        wrong="        if version.latest and not version.marker:\n",
        test=f"{MARKERS}::test_what_commits_under_markers_share_stays",
    ),
    "what others wrote over a covered container ends its protection": Bug(
        "reclaim.engine.tasks.promised",
        right="            yield _Covered(bucket, version)\n",
        wrong="            yield _Covered(bucket, version)\n            return\n",
        test=f"{MARKERS}::test_what_commits_under_markers_share_stays_whoever_writes_over_them",
    ),
    "a promised container of a newer version protects nothing": Bug(
        "reclaim.engine.tasks.promised",
        right="NOT_THERE = (Corrupt, NotFound)\n",
        wrong="NOT_THERE = (Corrupt, NotFound, Exception)\n",
        test=f"{BROKEN}::test_a_promised_container_of_a_newer_version_stops_the_run",
    ),
    "a promised container that is away protects nothing": Bug(
        "reclaim.run.promises",
        right="    if needed.unread.count:\n",
        wrong="    if needed.unread.count > 1:\n",
        test=f"{BROKEN}::test_a_promised_container_that_cannot_be_read_stops_others[away-range]",
    ),
    "a purge deletes before its run stops to promise": Bug(
        "reclaim.run.purge",
        right="            run = _note_begun(store, held, run)\n",
        wrong="            pass\n",
        test=f"{PURGE_BEGUN}::test_a_purge_that_stops_at_a_changed_file_holds_up_no_other_run",
    ),
    "a run that is being purged takes the promises of others with it": Bug(
        "reclaim.run.promises",
        right="if run.undoable and run.id != besides}\n",
        wrong="if run.undoable and run.id != besides}\n"
        "    if any(run.purging for run in _promising(store)):\n        return seen\n",
        test=f"{PURGE_BEGUN}::test_what_another_run_promised_stays",
    ),
    "a run of which a purge has begun to delete is undone": Bug(
        "reclaim.run.undo",
        right="    if run.purging:\n",
        wrong="    if False:\n",
        test=f"{PURGE_BEGUN}::test_a_purge_that_died_before_it_deleted_anything",
    ),
    "a commit that no ref reaches holds what an undo brings back": Bug(
        "reclaim.catalog.collection.undoing",
        right="tops | _tops(connection, repo_uid, out_of_reach(connection, repo_uid, back))",
        wrong="tops",
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
        "reclaim.run.purge",
        right="if run_id is None else run.id == run_id)",
        wrong="if run_id is None else True)",
        test=f"{BROKEN}::test_a_promised_container_that_is_lost_and_the_way_out",
    ),
    "a plan without a record takes its own promise for another's": Bug(
        "reclaim.run.trust",
        right="besides=planned.run, ",
        wrong="",
        test=f"{COMMITS}::test_a_plan_without_a_record_goes_on_with_what_it_promised",
    ),
    "commits are taken over whether they are whole or not": Bug(
        "reclaim.run.applying.taking_over",
        right="return find_whole(store, context.engine, left, place, opener=context.opener)",
        wrong="return list(left)",
        test=f"{COMMITS}"
        "::test_a_commit_that_is_broken_is_not_promised_and_its_child_is[embedded-deleted]",
    ),
    "the store is listed between the read and the first delete": Bug(
        "reclaim.run.apply",
        right="        seen, candidates = self._confirm(decided, seen, now)\n",
        wrong="        seen, candidates = self._confirm(decided, seen, now)\n"
        "        left_whole = find_left_whole(self._context)\n",
        test=f"{COMMITS}::test_the_store_is_listed_for_them_before_the_roots_are_read",
    ),
    "commits are taken over after their objects": Bug(
        "reclaim.run.apply",
        right="if left_whole and isinstance(held, TakesOver):",
        wrong="if False and isinstance(held, TakesOver):",
        test=f"{COMMITS}"
        "::test_whole_commits_of_a_run_that_died_come_back_with_the_run_that_takes_them",
    ),
    "the parents of promised commits are anybody's": Bug(
        "reclaim.run.decide",
        right="        *map(history.numbers.__getitem__, promised),\n",
        wrong="",
        test=f"{PARENTS}::test_the_parent_of_a_promised_commit_stays[embedded-deletes]",
    ),
    "what an edit would give back as parents is anybody's": Bug(
        "reclaim.catalog.collection.promised",
        right="    replaced = select(run_edits.c.old_parents)"
        ".where(among(connection, run_edits.c.run_id, runs))\n",
        wrong="    replaced = select(run_edits.c.old_parents)"
        ".where(run_edits.c.run_id == 'nobody')\n",
        test=f"{PARENTS}::test_what_an_edit_would_give_back_as_parents_stays[parent]",
    ),
    "what a deleted ref named is anybody's": Bug(
        "reclaim.catalog.collection.promised",
        right="    yield from connection.execute(deleted).scalars()\n",
        wrong="",
        test=f"{PARENTS}::test_what_a_deleted_tag_named_stays",
    ),
    "a commit waits for a parent that is gone for good": Bug(
        "reclaim.catalog.collection.undoing",
        right="sorted(missing - gone_for_good(connection, repo_uid, missing) - broken)",
        wrong="sorted(missing - broken)",
        test=f"{PARENTS}::test_a_commit_comes_back_although_its_parent_is_gone[embedded-deletes]",
    ),
    "a broken commit keeps its children in quarantine": Bug(
        "reclaim.catalog.collection.undoing",
        right="sorted(missing - gone_for_good(connection, repo_uid, missing) - broken)",
        wrong="sorted(missing - gone_for_good(connection, repo_uid, missing))",
        test=f"{BROKEN}::test_commits_come_back_although_the_oldest_lost_an_object",
    ),
    "a commit comes back on top of one that is not back": Bug(
        "reclaim.catalog.collection.taking_back",
        right="history_edit.set_parents(connection, repo_uid, edit.commit_id, new, marked=True)\n",
        wrong="dict()\n",
        test=f"{BROKEN}::test_commits_come_back_although_the_oldest_lost_an_object",
    ),
    "who came back without a parent never gets it": Bug(
        "reclaim.catalog.collection.taking_back",
        right="        history_edit.note_edit(\n",
        wrong="        dict(\n",
        test=f"{BROKEN}::test_who_came_back_without_a_parent_gets_it_when_it_is_back",
    ),
    "a broken commit ends the history of its children": Bug(
        "reclaim.catalog.collection.taking_back",
        right="        new = detours[edit.commit_id]\n",
        wrong="        new = tuple(one for one in detours[edit.commit_id] if one in old)\n",
        test=f"{DETOURS}::test_the_history_goes_on_below_a_broken_commit",
    ),
    "parents come back all or none": Bug(
        "reclaim.catalog.collection.taking_back",
        right="[*json.loads(edit.old_parents), *parents] for edit",
        wrong="[*parents] for edit",
        test=f"{DETOURS}::test_parents_come_back_one_by_one",
    ),
    "an undo takes a commit out of the history that was in it": Bug(
        "reclaim.catalog.collection.taking_back",
        right="[*json.loads(edit.old_parents), *parents] for edit",
        wrong="[*json.loads(edit.old_parents)] for edit",
        test=f"{DETOURS}::test_nothing_leaves_the_history_because_a_parent_is_gone",
    ),
    "a commit without its true parents counts as unedited": Bug(
        "reclaim.catalog.collection.taking_back",
        right="history_edit.set_parents(connection, repo_uid, edit.commit_id, new, marked=True)\n",
        wrong="history_edit.set_parents("
        "connection, repo_uid, edit.commit_id, new, marked=edit.was_marked)\n",
        test=f"{DETOURS}::test_a_commit_stays_marked_until_its_true_parents_are_back",
    ),
    "a detour of a commit that another run has meanwhile": Bug(
        "reclaim.catalog.collection.detours",
        right=" | set(asked.values())\n",
        wrong=" | {asked[one] for one in asked if rows[one].state == CommitState.LIVE}\n",
        test=f"{DETOURS}::test_a_commit_that_another_run_has_meanwhile",
    ),
    "an expiration waits for an undo that is never finished": Bug(
        "reclaim.catalog.collection.editors",
        right="    return run.quarantine is not None or not later.undoing\n",
        wrong="    return True\n",
        test=f"{DETOURS}::test_an_expiration_below_what_is_lost_can_be_undone",
    ),
    "a detour of an undo is waited for like an edit": Bug(
        "reclaim.catalog.collection.editors",
        right="        run.undoing and not stands(connection, repo_uid, old)\n",
        wrong="        not run.id and not stands(connection, repo_uid, old)\n",
        test=f"{DETOURS}::test_an_expiration_of_a_commit_that_an_undo_edited_can_be_undone",
    ),
    "a repeated undo makes refs anew": Bug(
        "reclaim.catalog.collection.taking_back",
        right="(what)\n            _forget_ref(connection, ref)\n",
        wrong="(what)\n",
        test=f"{DETOURS}::test_a_ref_that_somebody_deleted_since_stays_deleted",
    ),
    "nobody is told what a lease alone holds": Bug(
        "reclaim.catalog.collection.undoing",
        right="        named = _list_held(connection, workspace, run_id)\n",
        wrong="        named = ()\n",
        test=f"{DETOURS}::test_what_only_a_lease_holds_is_named",
    ),
    "an undo ends the protection of what it could not hang up again": Bug(
        "reclaim.catalog.collection.undoing",
        right="held += [one for one in sorted(outcome.loose) if",
        wrong="held += [one for one in () if",
        test=f"{BROKEN}::test_what_only_the_promise_held_is_leased",
    ),
    "an expiration that is refused is waited for": Bug(
        "reclaim.catalog.collection.editors",
        right="        return not _leads_to_gone(connection, repo_uid, run.id)\n",
        wrong="        return True\n",
        test="tests/collect/test_edits_in_turn.py"
        "::test_an_expiration_that_cannot_be_undone_is_not_waited_for",
        besides=(
            Change(
                "reclaim.catalog.collection.covering",
                right="    if undone:\n",
                wrong="    if False:\n",
            ),
        ),
    ),
    "a commit comes back on top of one that is gone": Bug(
        "reclaim.catalog.collection.undoing",
        right="    absent = named - set(connection.execute(query).scalars())\n",
        wrong="    absent: set[str] = set()\n",
        test=f"{PARENTS}::test_a_commit_comes_back_although_its_parent_is_gone[embedded-deletes]",
    ),
    "a parent that another run has counts as gone": Bug(
        "reclaim.catalog.collection.promised",
        right="    runs = undoable(connection, repo_uid)\n    return",
        wrong="    runs: set[str] = set()\n    return",
        test=f"{PARENTS}::test_a_commit_waits_for_a_parent_that_another_run_has",
    ),
    "an undo ends at many failures": Bug(
        "reclaim.run.undo",
        right="            failures = journal.failures(SHOWN) if failed else []\n",
        wrong="            failures = journal.failures(SHOWN) if failed else []\n"
        "            if failed > SHOWN:\n"
        "                raise Partial('too many')\n",
        test=f"{PROMISES}::test_many_objects_that_cannot_come_back_hold_up_no_other_commit",
    ),
    "the record of a run of an older plan is not found": Bug(
        "reclaim.run.plan_file",
        right='    body = _body(storage, Place(storage.url, ""))\n',
        wrong='    body = _body(storage, Place(storage.url, ""))\n'
        '    read(storage, Place(storage.url, ""))\n',
        test="tests/collect/test_plan_snapshots.py::test_a_run_of_an_older_plan_can_be_undone",
    ),
    "commits brought back without a look at what they need": Bug(
        "reclaim.run.wholeness",
        right="if broken.isdisjoint(mine.values())]",
        wrong="if one]",
        test="tests/collect/test_undo.py::test_a_commit_that_misses_an_object_is_left",
    ),
    "commits brought back before their objects": Bug(
        "reclaim.run.undo",
        right="""        with stage("restore", unit=OBJECTS, total=taken) as restoring:
""",
        wrong="""        commits = self._snapshots.taken(self._run.id)
        self._snapshots.restore(self._run.id, commits, complete=True)
        with stage("restore", unit=OBJECTS, total=taken) as restoring:
""",
        test="tests/collect/test_crash.py::test_an_undo_that_dies_at_any_step[embedded]",
    ),
    "parents not brought back": Bug(
        "reclaim.catalog.collection.taking_back",
        right="history_edit.set_parents(connection, uid, edit.commit_id, old, ",
        wrong="dict(",
        test="tests/collect/test_quarantine.py::test_parents_and_refs_come_back_as_well[embedded]",
    ),
    "what came back is as old as it was": Bug(
        "reclaim.engine.tasks.restoring",
        right="                    fresh=self.undos[-1],\n",
        wrong="",
        test="tests/collect/test_undo.py"
        "::test_what_is_back_and_in_no_commit_has_its_margin[embedded]",
    ),
    "nothing holds what came back": Bug(
        "reclaim.catalog.collection.undoing",
        right="        held = _without_child(connection, uid, run_id, back)\n",
        wrong="        held: list[str] = []\n",
        test="tests/collect/test_quarantine.py"
        "::test_what_came_back_is_safe_for_a_day_and_goes_then[embedded]",
    ),
    "a run called purged before its objects are gone": Bug(
        "reclaim.run.purge",
        right="""    assert removal is not None
""",
        wrong="""    assert removal is not None
    store.finish(run.id, RunState.PURGED, run.summary)
""",
        test="tests/collect/test_crash.py::test_a_purge_that_dies_at_any_step[embedded]",
    ),
    "a run takes over the commits of one that did not finish": Bug(
        "reclaim.stores.catalog.held",
        right="commit_states.collect(self._workspace, self.lock, ids, but_of=self._undoable())",
        wrong="commit_states.collect(self._workspace, self.lock, ids)",
        test=f"{PROMISES}::test_a_run_that_died_before_it_settled_keeps_its_commits[moves]",
        sequence="an apply that died before it settled, and a shorter window",
    ),
    "a run of which something waits counts as undone": Bug(
        "reclaim.catalog.collection.undoing",
        right="finished = complete and not waits",
        wrong="finished = True",
        test=f"{PROMISES}::test_a_foreign_object_at_a_home_stops_nothing_else[embedded-same]",
        sequence="other bytes at a home",
    ),
    "what an unfinished undo brought back is anybody's": Bug(
        "reclaim.run.promises",
        right="if run.purging or (aside.removal != MARKED and not run.unfinished):",
        wrong="if (not run.unfinished or run.undoing) and aside.removal != MARKED:",
        test=f"{PROMISES}::test_what_a_cut_off_undo_brought_back_is_not_taken",
        sequence="an undo that was cut off, and a collection",
        besides=(NO_COMMITS,),
    ),
    "what an unfinished run is about to take is anybody's": Bug(
        "reclaim.model",
        right="whole = self.state == RunState.DONE and not self.undoing",
        wrong="whole = not self.undoing",
        test=f"{WINDOWS}::test_a_list_of_what_was_intended_that_is_lost[missing]",
    ),
    "what is intended is written down after the first object went": Bug(
        "reclaim.run.applying.base",
        right="        self._journal.intend(parts)\n",
        wrong="",
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
        "reclaim.run.undo",
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
        "reclaim.run.promises",
        right="for rows in (*others, _record(store, run)):",
        wrong="for rows in others:",
        test=f"{PROMISES}::test_the_journal_stays_as_long_as_the_window",
    ),
    "a run that is done promises nothing more": Bug(
        "reclaim.run.promises",
        right="    if not promised.num_rows:\n",
        wrong="    if True:\n",
        test=f"{WINDOWS}::test_a_commit_of_which_a_run_took_a_part_is_its_own[deletes]",
        sequence="a part of a commit, and a collection",
    ),
    "any plan in its place is the run's": Bug(
        "reclaim.run.removal",
        right="if planned.run != run.id or ",
        wrong="if ",
        test=f"{WINDOWS}::test_another_plan_in_its_place_is_not_the_run_s",
    ),
    "a purge goes by any clock": Bug(
        "reclaim.run.purge",
        right="        check_clock(store, store.storage, place)\n",
        wrong="",
        test=f"{WINDOWS}::test_a_purge_by_a_clock_that_is_ahead",
    ),
    "a copy that came back is not written down": Bug(
        "reclaim.engine.tasks.restoring",
        right="        self._note(storage, [noted for one in prepared",
        wrong="        self._note(storage, [noted for one in prepared[:0]",
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
        right="            self._note_unknown(storage, targets)\n",
        wrong="",
        test=f"{WINDOWS}::test_other_bytes_written_over_what_no_journal_has",
    ),
    "a copy over a marker is known by its etag alone": Bug(
        "reclaim.engine.tasks.delete_markers",
        right="own = versions[0].id in covered.copies and not versions[0].marker",
        wrong="own = False",
        test=f"{VERSIONS}::test_a_copy_with_another_etag_is_known_again",
    ),
    "markers are set whether or not the bucket keeps versions": Bug(
        "reclaim.engine.tasks.delete_markers",
        right="        _check_versioning(bucket)\n",
        wrong="",
        test=f"{VERSIONS}::test_a_bucket_that_is_suspended_while_markers_are_set[before]",
    ),
    "a marker in the place of the bytes is as good as any": Bug(
        "reclaim.engine.tasks.delete_markers",
        right="        _check_markers(markers, going)\n",
        wrong="",
        test=f"{VERSIONS}::test_a_bucket_that_is_suspended_while_markers_are_set[within]",
    ),
    "what was set aside need not last": Bug(
        "reclaim.engine.tasks.quarantine",
        right="target, one in pairs if one.outcome == QUARANTINED\n",
        wrong="target, one in pairs if False\n",
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
    "an undo does not say that it has begun": Bug(
        "reclaim.run.removal",
        right="    store.storage.put(note, now.isoformat().encode())\n",
        wrong="    return\n",
        test=f"{LATE}::test_what_is_moved_after_an_undo_is_put_back",
    ),
    "the source of a copy goes however long the copy took": Bug(
        "reclaim.storage.objects",
        right="        last_check()\n",
        wrong="",
        test=f"{LATE}::test_a_copy_that_took_too_long_is_not_followed_by_a_delete",
    ),
    "one by one there is always time": Bug(
        "reclaim.engine.tasks.deleting",
        right="deleter.take_one(storage, one, in_time)",
        wrong="deleter.take_one(storage, one, lambda: True)",
        test=f"{LATE}::test_one_by_one_nothing_is_taken_too_late",
    ),
    "what is covered already is covered again": Bug(
        "reclaim.storage.buckets",
        right="""== 404:
                    return None
                raise
""",
        wrong="""== 404:
                    return next((one for one in self.versions_of(address) if not one.marker), None)
                raise
""",
        test=f"{VERSIONS}::test_what_is_covered_is_not_covered_again",
        sequence="two plans of the same",
        besides=(
            Change(
                "reclaim.run.promises",
                right="if run.purging or (aside.removal != MARKED and not run.unfinished):",
                wrong="if not run.unfinished:",
            ),
            NO_COMMITS,
        ),
    ),
    "whether the bucket still keeps versions is not asked": Bug(
        "reclaim.run.removal",
        right="""_check_versioning(store, "switch the bucket's""",
        wrong="""_ = (store, "switch the bucket's""",
        test=f"{VERSIONS}::test_versioning_suspended_in_between",
        sequence="versioning suspended in between",
    ),
    "a version that is current is deleted": Bug(
        "reclaim.engine.tasks.delete_markers",
        right="if (kept := _find(older, one.covered)) is not None:",
        wrong="if (kept := _find(one.versions, one.covered)) is not None:",
        test=f"{VERSIONS}::test_the_current_version_is_never_deleted",
        sequence="markers that were not written",
        besides=(NEVER_COVERED,),
    ),
    "what was never covered counts as brought back": Bug(
        NEVER_COVERED.module,
        NEVER_COVERED.right,
        NEVER_COVERED.wrong,
        sequence="markers that were not written",
    ),
    "what was written over a covered version is taken for it": Bug(
        "reclaim.engine.tasks.delete_markers",
        right="return next((one for one in named if one.etag == covered.etag), None)",
        wrong="return next(named, None)",
        sequence="other bytes while versioning is suspended",
    ),
    "which versions are about to be covered is not written down": Bug(
        "reclaim.engine.tasks.delete_markers",
        right="        write_note(storage, self.notes, noted)\n",
        wrong="",
        test=f"{DAMAGED_MARKERS}::test_markers_without_a_journal",
        sequence="markers without a journal, and a purge",
    ),
    "a purge takes what failed": Bug(
        "reclaim.engine.tasks.delete_markers",
        right="return Taken(FAILED, identity, failed[target.address])",
        wrong="return Taken(FAILED, None, failed[target.address])",
        test=f"{VERSIONS}::test_a_purge_by_identity",
        sequence="a purge of a run that ended halfway",
    ),
    "a purge takes what another run has covered": Bug(
        "reclaim.engine.tasks.delete_markers",
        right="return Taken(FAILED, identity, failed[target.address])",
        wrong="return Taken(FAILED, None, failed[target.address])",
        sequence="a purge of a run that ended halfway, and another run",
        besides=(
            Change(
                "reclaim.run.promises",
                right="if run.purging or (aside.removal != MARKED and not run.unfinished):",
                wrong="if True:",
            ),
            NO_COMMITS,
        ),
    ),
    "one object in the way holds up every commit": Bug(
        "reclaim.run.undo",
        right="            whole = find_whole(\n",
        wrong="            whole = [] if failed else find_whole(\n",
        sequence="other bytes at a home",
    ),
    "what an apply that ended halfway left is anybody's": Bug(
        "reclaim.model",
        right="whole = self.state == RunState.DONE and not self.undoing",
        wrong="whole = not self.undoing",
        sequence="an apply that ended halfway, and a collection",
        besides=(NO_COMMITS,),
    ),
    "a repeated apply tells only what it did itself": Bug(
        "reclaim.run.journal",
        right="            total.add(outcome.without(FAILED))",
        wrong="            pass",
        sequence="an apply and an undo that were repeated",
    ),
    "a repeated undo tells only what it did itself": Bug(
        "reclaim.engine.tasks.restoring",
        right="""self._is_back(storage, there, target):
            return Taken(RESTORED)""",
        wrong="""self._is_back(storage, there, target):
            return Taken(MISSING)""",
        sequence="an apply and an undo that were repeated",
    ),
}
