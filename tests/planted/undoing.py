"""Bugs of an undo: what comes back, with which parents, and what holds it."""

from __future__ import annotations

from tests.planted.bug import Bug, Change

PROMISES = "tests/collect/quarantine/test_promises.py"
DETOURS = "tests/collect/history/test_detours.py"
BROKEN = "tests/collect/quarantine/test_promised_broken.py"
PARENTS = "tests/collect/quarantine/test_promised_parents.py"
LATE = "tests/collect/apply/test_late_tasks.py"

BUGS: dict[str, Bug] = {
    "the parents of promised commits are anybody's": Bug(
        "reclaim.run.plan.decide",
        right="        *map(history.numbers.__getitem__, promised),\n",
        wrong="",
        test=f"{PARENTS}::test_the_parent_of_a_promised_commit_stays[embedded-deletes]",
    ),
    "what an edit would give back as parents is anybody's": Bug(
        "reclaim.catalog.collection.roots.promised",
        right="    replaced = select(run_edits.c.old_parents)"
        ".where(among(connection, run_edits.c.run_id, runs))\n",
        wrong="    replaced = select(run_edits.c.old_parents)"
        ".where(run_edits.c.run_id == 'nobody')\n",
        test=f"{PARENTS}::test_what_an_edit_would_give_back_as_parents_stays[parent]",
    ),
    "what a deleted ref named is anybody's": Bug(
        "reclaim.catalog.collection.roots.promised",
        right="    yield from connection.execute(deleted).scalars()\n",
        wrong="",
        test=f"{PARENTS}::test_what_a_deleted_tag_named_stays",
    ),
    "a commit waits for a parent that is gone for good": Bug(
        "reclaim.catalog.collection.undo.undoing",
        right="sorted(missing - gone_for_good(connection, repo_uid, missing) - broken)",
        wrong="sorted(missing - broken)",
        test=f"{PARENTS}::test_a_commit_comes_back_although_its_parent_is_gone[embedded-deletes]",
    ),
    "a broken commit keeps its children in quarantine": Bug(
        "reclaim.catalog.collection.undo.undoing",
        right="sorted(missing - gone_for_good(connection, repo_uid, missing) - broken)",
        wrong="sorted(missing - gone_for_good(connection, repo_uid, missing))",
        test=f"{BROKEN}::test_commits_come_back_although_the_oldest_lost_an_object",
    ),
    "a commit comes back on top of one that is not back": Bug(
        "reclaim.catalog.collection.undo.taking_back",
        right="history_edit.set_parents(connection, repo_uid, edit.commit_id, new, marked=True)\n",
        wrong="dict()\n",
        test=f"{BROKEN}::test_commits_come_back_although_the_oldest_lost_an_object",
    ),
    "who came back without a parent never gets it": Bug(
        "reclaim.catalog.collection.undo.taking_back",
        right="        history_edit.note_edit(\n",
        wrong="        dict(\n",
        test=f"{BROKEN}::test_who_came_back_without_a_parent_gets_it_when_it_is_back",
    ),
    "a broken commit ends the history of its children": Bug(
        "reclaim.catalog.collection.undo.taking_back",
        right="        new = substitutes[edit.commit_id]\n",
        wrong="        new = tuple(one for one in substitutes[edit.commit_id] if one in old)\n",
        test=f"{DETOURS}::test_the_history_goes_on_below_a_broken_commit",
    ),
    "parents come back all or none": Bug(
        "reclaim.catalog.collection.undo.taking_back",
        right="[*json.loads(edit.old_parents), *parents] for edit",
        wrong="[*parents] for edit",
        test=f"{DETOURS}::test_parents_come_back_one_by_one",
    ),
    "an undo takes a commit out of the history that was in it": Bug(
        "reclaim.catalog.collection.undo.taking_back",
        right="[*json.loads(edit.old_parents), *parents] for edit",
        wrong="[*json.loads(edit.old_parents)] for edit",
        test=f"{DETOURS}::test_nothing_leaves_the_history_because_a_parent_is_gone",
    ),
    "a commit without its true parents counts as unedited": Bug(
        "reclaim.catalog.collection.undo.taking_back",
        right="history_edit.set_parents(connection, repo_uid, edit.commit_id, new, marked=True)\n",
        wrong="history_edit.set_parents("
        "connection, repo_uid, edit.commit_id, new, marked=edit.was_marked)\n",
        test=f"{DETOURS}::test_a_commit_stays_marked_until_its_true_parents_are_back",
    ),
    "a detour of a commit that another run has meanwhile": Bug(
        "reclaim.catalog.collection.undo.live_ancestors",
        right=" | set(nodes.values())\n",
        wrong=" | {nodes[one] for one in nodes if rows[one].state == CommitState.LIVE}\n",
        test=f"{DETOURS}::test_a_commit_that_another_run_has_meanwhile",
    ),
    "an expiration waits for an undo that is never finished": Bug(
        "reclaim.catalog.collection.undo.editors",
        right="    return run.quarantine is not None or not later.undoing\n",
        wrong="    return True\n",
        test=f"{DETOURS}::test_an_expiration_below_what_is_lost_can_be_undone",
    ),
    "a detour of an undo is waited for like an edit": Bug(
        "reclaim.catalog.collection.undo.editors",
        right="        run.undoing and not stands(connection, repo_uid, old)\n",
        wrong="        not run.id and not stands(connection, repo_uid, old)\n",
        test=f"{DETOURS}::test_an_expiration_of_a_commit_that_an_undo_edited_can_be_undone",
    ),
    "a repeated undo makes refs anew": Bug(
        "reclaim.catalog.collection.undo.taking_back",
        right="(part)\n            _forget_ref(connection, ref)\n",
        wrong="(part)\n",
        test=f"{DETOURS}::test_a_ref_that_somebody_deleted_since_stays_deleted",
    ),
    "nobody is told what a lease alone holds": Bug(
        "reclaim.catalog.collection.undo.undoing",
        right="        named = _list_held(connection, workspace, run_id)\n",
        wrong="        named = ()\n",
        test=f"{DETOURS}::test_what_only_a_lease_holds_is_named",
    ),
    "an undo ends the protection of what it could not hang up again": Bug(
        "reclaim.catalog.collection.undo.undoing",
        right="returned |= outcome.loose",
        wrong="returned = set(restorable)",
        test=f"{BROKEN}::test_what_only_the_promise_held_is_leased",
    ),
    "an expiration that is refused is waited for": Bug(
        "reclaim.catalog.collection.undo.editors",
        right="        return not _leads_to_gone(connection, repo_uid, run.id)\n",
        wrong="        return True\n",
        test="tests/collect/history/test_edits_in_turn.py"
        "::test_an_expiration_that_cannot_be_undone_is_not_waited_for",
        besides=(
            Change(
                "reclaim.catalog.collection.undo.later_edits",
                right="    if undone:\n",
                wrong="    if False:\n",
            ),
        ),
    ),
    "a commit comes back on top of one that is gone": Bug(
        "reclaim.catalog.collection.undo.undoing",
        right="    absent = named - set(connection.execute(query).scalars())\n",
        wrong="    absent: set[str] = set()\n",
        test=f"{PARENTS}::test_a_commit_comes_back_although_its_parent_is_gone[embedded-deletes]",
    ),
    "a parent that another run has counts as gone": Bug(
        "reclaim.catalog.collection.roots.promised",
        right="    runs = undoable(connection, repo_uid)\n    return",
        wrong="    runs: set[str] = set()\n    return",
        test=f"{PARENTS}::test_a_commit_waits_for_a_parent_that_another_run_has",
    ),
    "an undo ends at many failures": Bug(
        "reclaim.run.undo.undo_run",
        right="            failures = journal.failures(SHOWN) if failed else []\n",
        wrong="            failures = journal.failures(SHOWN) if failed else []\n"
        "            if failed > SHOWN:\n"
        "                raise Partial('too many')\n",
        test=f"{PROMISES}::test_many_objects_that_cannot_come_back_hold_up_no_other_commit",
    ),
    "commits brought back without a look at what they need": Bug(
        "reclaim.run.undo.completeness",
        right="if broken.isdisjoint(addresses.values())",
        wrong="if snapshot",
        test="tests/collect/quarantine/test_undo.py::test_a_commit_that_misses_an_object_is_left",
    ),
    "commits brought back before their objects": Bug(
        "reclaim.run.undo.undo_run",
        right="""        with stage("restore", unit=OBJECTS, total=taken) as restoring:
""",
        wrong="""        commits = self._snapshots.taken(self._run.id)
        self._snapshots.restore(self._run.id, commits, complete=True)
        with stage("restore", unit=OBJECTS, total=taken) as restoring:
""",
        test="tests/collect/apply/test_crash.py::test_an_undo_that_dies_at_any_step[embedded]",
    ),
    "parents not brought back": Bug(
        "reclaim.catalog.collection.undo.taking_back",
        right="history_edit.set_parents(connection, uid, edit.commit_id, old, ",
        wrong="dict(",
        test="tests/collect/quarantine/test_quarantine.py::test_parents_and_refs_come_back_as_well[embedded]",
    ),
    "what came back is as old as it was": Bug(
        "reclaim.engine.tasks.restoring",
        right="                    fresh=self.undos[-1],\n",
        wrong="",
        test="tests/collect/quarantine/test_undo.py"
        "::test_what_is_back_and_in_no_commit_has_its_margin[embedded]",
    ),
    "nothing holds what came back": Bug(
        "reclaim.catalog.collection.undo.undoing",
        right="returned = dropped | restorable",
        wrong="returned = set(dropped)",
        test="tests/collect/quarantine/test_quarantine.py"
        "::test_what_came_back_is_safe_until_the_window_is_over_and_goes_then[embedded]",
    ),
    "a run of which something waits counts as undone": Bug(
        "reclaim.catalog.collection.undo.undoing",
        right="finished = complete and not waits",
        wrong="finished = True",
        test=f"{PROMISES}::test_a_foreign_object_at_a_home_stops_nothing_else[embedded-same]",
        sequence="other bytes at a home",
    ),
    "an undo does not say that it has begun": Bug(
        "reclaim.run.sweep.removal",
        right="    store.storage.put(note, now.isoformat().encode())\n",
        wrong="    return\n",
        test=f"{LATE}::test_what_is_moved_after_an_undo_is_put_back",
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
