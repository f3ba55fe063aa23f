"""Bugs of Icechunk repositories."""

from __future__ import annotations

from importlib.metadata import version

from tests.planted.bug import Bug, Change

DECODERS = "tests/icechunk/test_decoders.py"
PLAN = "tests/icechunk/test_plan.py"
APPLY = "tests/icechunk/test_apply.py"
EXPIRATION = "tests/icechunk/test_expiration.py"
OWN_EDIT = "tests/icechunk/test_own_edit.py"
BACKUPS = "tests/icechunk/test_backups.py"
KILLED = "tests/icechunk/test_killed.py::test_on_a_disk"
LOST = "tests/icechunk/test_lost_files.py"
CONTRACT = "tests/icechunk/test_contract.py::TestIcechunkStore"

OF_BOTH_SPECS: dict[str, Bug] = {
    "chunks of a manifest that is at home are not looked for": Bug(
        "reclaim.stores.icechunk.rereferenced",
        right="            addresses.update(map(self._quarantine_address, chunks.to_pylist()))\n",
        wrong='            if manifest["address"] != row["address"]:\n'
        "                addresses.update(map(self._quarantine_address, chunks.to_pylist()))\n",
        test=f"{LOST}::test_a_rescue_that_was_cut_short[spec 1]",
    ),
    "a file with the name of a snapshot counts wherever it lies": Bug(
        "reclaim.stores.icechunk.survey",
        right='    inside = pc.and_(pc.starts_with(address, f"{folder}/"), direct)\n',
        wrong='    inside = pc.starts_with(address, f"{folder}/")\n',
        test=f"{LOST}::test_a_file_with_the_name_of_a_snapshot_further_below[spec 1]",
    ),
    "what refers to something in an Icechunk quarantine is not looked for": Bug(
        "reclaim.stores.icechunk.rereferenced",
        right="    waiting = sorted(taken & observer.referred_to(reader))\n",
        wrong="    waiting = sorted(taken & frozenset())\n",
        test=f"{LOST}::test_a_branch_made_right_after_the_last_look",
    ),
    "an ancestor in an Icechunk quarantine is not brought back": Bug(
        "reclaim.stores.icechunk.rereferenced",
        right="            if parent is not None and parent in taken:\n",
        wrong="            if False:\n",
        test=f"{LOST}::test_a_branch_made_right_after_the_last_look",
    ),
    "fields of a later version of Icechunk are passed over": Bug(
        "reclaim.stores.icechunk.flatbuffer",
        right="            if self._field(slot, 1):\n",
        wrong="            if self._field(slot, 1) < 0:\n",
        test=f"{DECODERS}::test_later_versions_are_refused[spec 1]",
    ),
    "what is in reserved fields of Icechunk is passed over": Bug(
        "reclaim.stores.icechunk.flatbuffer",
        right="            if at and self.buffer.vector(at, 1)[1]:\n",
        wrong="            if at and self.buffer.vector(at, 1)[1] < 0:\n",
        test=f"{DECODERS}::test_later_versions_are_refused[spec 1]",
    ),
    "a field that few tables of Icechunk have is passed over": Bug(
        "reclaim.stores.icechunk.flatbuffer",
        right="            if self._offsets(slot, 1).any():\n",
        wrong="            if self._offsets(slot, 1).all():\n",
        test="tests/icechunk/test_flatbuffer.py::test_one_odd_table_among_many",
    ),
    "what snapshots list is lost in a survey": Bug(
        "reclaim.stores.icechunk.format",
        right="                pa.table([owner_of, *listed.columns], schema=OWNED),\n",
        wrong="                pa.table([owner_of, *listed.columns], schema=OWNED).slice(1),\n",
        test=f"{PLAN}::test_the_plan_is_what_the_library_collects[spec 1]",
    ),
    "chunks of a manifest are passed over": Bug(
        "reclaim.stores.icechunk.format",
        right='names(manifest.chunks, f"{self.prefix}{CHUNKS}/")',
        wrong='names(manifest.chunks[1:], f"{self.prefix}{CHUNKS}/")',
        test="tests/icechunk/test_differential.py"
        "::test_what_is_left_is_what_the_library_leaves[spec 1]",
    ),
    "a manifest under another name counts": Bug(
        "reclaim.stores.icechunk.format",
        right="            if wanted != actual:\n",
        wrong="            if wanted != actual and field == 'number of refs':\n",
        test=f"{PLAN}::test_nothing_is_planned_when_something_live_cannot_be_read"
        "[spec 1-a manifest under another name]",
    ),
    "young snapshots that nothing reaches keep nothing": Bug(
        "reclaim.stores.icechunk.observing",
        right="            too_young=frozenset(young),\n",
        wrong="            too_young=frozenset(),\n",
        test=f"{PLAN}::test_what_is_young_stays[spec 1]",
    ),
    "what came after the listing is not young": Bug(
        "reclaim.stores.icechunk.observing",
        right="if id not in modified or modified[id] >= cutoff}",
        wrong="if id in modified and modified[id] >= cutoff}",
        test=f"{PLAN}::test_a_snapshot_that_is_written_and_left_while_refs_are_read",
    ),
    "snapshots that came while refs were read are not looked for": Bug(
        "reclaim.stores.icechunk.history",
        right="_named(tips, snapshots).union(named)",
        wrong="_named(tips, snapshots)",
        test=f"{PLAN}::test_a_snapshot_that_is_written_and_left_while_refs_are_read",
    ),
    "refs in files are read once": Bug(
        "reclaim.stores.icechunk.history",
        right="        if refs is not None and refs == before:\n            return refs\n",
        wrong="        if before is not None:\n            return before\n",
        test=f"{PLAN}::test_a_branch_that_is_made_while_refs_are_read",
    ),
    "an object is written over what others wrote": Bug(
        "reclaim.storage.objects",
        right='obstore.put(self._store, address, data, mode={"e_tag": version})',
        wrong="obstore.put(self._store, address, data)",
        test="tests/storage/test_swap.py::test_who_comes_second_writes_nothing[memory]",
    ),
    "spec 1 lets a plan name backups": Bug(
        "reclaim.stores.icechunk.held",
        right="        if OLD_BACKUP in kinds:\n",
        wrong="        if False:\n",
        test="tests/icechunk/test_backups.py"
        "::test_an_apply_of_spec_1_refuses_a_plan_that_names_backups",
    ),
    "what a ref in a file names is condemned": Bug(
        "reclaim.stores.icechunk.held",
        right="        named = {ref.snapshot for ref in self._refs()} | leased\n",
        wrong="        named = leased\n",
        test=f"{CONTRACT}::test_what_a_ref_names_is_not_marked[spec 1]",
    ),
    "the library of spec 1 is asked by an old reading": Bug(
        "reclaim.stores.icechunk.held",
        right="        if not self._are_refs_as_seen(seen):\n",
        wrong="        if not seen:\n",
        test=f"{CONTRACT}::test_the_library_is_not_asked_by_an_old_reading[spec 1]",
    ),
    "what the library of spec 1 does to tips is not predicted": Bug(
        "reclaim.stores.icechunk.expiration",
        right="in reversed(line) if young[number]), tip)\n",
        wrong="in reversed(line) if young[number]), line[-1])\n",
        test=f"{EXPIRATION}::test_the_library_does_what_is_predicted[spec 1-0]",
    ),
    "a library that is not installed counts as one that has edited": Bug(
        "reclaim.run.expire.library_edit",
        right="    check_library(store)\n    for _ in range(ROUNDS):\n",
        wrong="    for _ in range(ROUNDS):\n",
        test=f"{EXPIRATION}::test_without_the_library[spec 1]",
    ),
    "parents of what is in quarantine go in spec 1": Bug(
        "reclaim.stores.icechunk.store",
        right="            return frozenset(self._parents_in_files(runs))\n",
        wrong="            return frozenset()\n",
        test=f"{CONTRACT}::test_parents_of_promised_snapshots_stay[spec 1]",
    ),
    "what an undo brings back after an edit is held by nothing": Bug(
        "reclaim.stores.icechunk.held",
        drops="HeldIcechunk.restore: hold_returned",
        test=f"{CONTRACT}::test_an_edit_that_cannot_be_undone_leaves_time[spec 1]",
    ),
}

OF_SPEC_2: dict[str, Bug] = {
    "the undo of an edit of repo holds nothing": Bug(
        "reclaim.stores.icechunk.held_repo",
        drops="HeldRepo.undo_edit: hold_returned",
        test="tests/icechunk/test_own_edit.py"
        "::test_the_same_rules_leave_what_an_undo_brought_back[expire]",
    ),
    "repo on a disk is removed before it is written": Bug(
        "reclaim.storage.objects",
        right="                obstore.put(self._store, address, data)\n                return\n",
        wrong="                self._local.delete([address])\n"
        "                obstore.put(self._store, address, data)\n                return\n",
        test=f"{KILLED}[edit by us, spec 2]",
    ),
    "what the library takes out of repo stays out when its run was killed": Bug(
        "reclaim.stores.icechunk.store",
        right="            or self._observer.withdrawn.any_pending()\n",
        wrong="",
        test=f"{KILLED}[edit by the library, spec 2]",
    ),
    "logs that ancestors of what is promised need go": Bug(
        "reclaim.stores.icechunk.observing",
        right="                    logs.update(listed[at].pruned)\n",
        wrong="",
        test=f"{LOST}::test_logs_that_an_ancestor_of_what_is_promised_needs",
    ),
    "what hangs on a stand-in is hung up anew when its parent is gone": Bug(
        "reclaim.stores.icechunk.repo_editor",
        right="            if not _is_known(removed.entry.parent, known, entries):\n",
        wrong="            if False:\n",
        test=f"{LOST}::test_a_parent_that_does_not_come_back",
    ),
    "an Icechunk repository is not looked at again before it is changed": Bug(
        "reclaim.stores.icechunk.held",
        right="        # It may have become read-only or been upgraded since the plan.\n"
        "        self._observer.check()\n",
        wrong="",
        besides=(
            Change(
                "reclaim.stores.icechunk.held",
                right="    def promote(self) -> int:\n        self._observer.check()\n",
                wrong="    def promote(self) -> int:\n",
            ),
        ),
        test=f"{LOST}::test_it_becomes_read_only_between_plan_and_apply",
    ),
    "an undo of Icechunk counts what repo does not get back": Bug(
        "reclaim.stores.icechunk.held_repo",
        right="                elif id not in never_listed:\n",
        wrong="                elif False:\n",
        test=f"{LOST}::test_what_was_taken_out_is_written_down_no_more",
    ),
    "what Icechunk never listed is missed": Bug(
        "reclaim.stores.icechunk.held_repo",
        drops="HeldRepo.condemn: note_never_listed",
        test=f"{LOST}::test_what_was_never_listed_comes_back_without_an_entry",
    ),
    "a repo that is lost makes a repository of spec 1": Bug(
        "reclaim.stores.icechunk.observing",
        drops="IcechunkObserver.check: _check_repo_is_not_lost",
        besides=(
            Change(
                "reclaim.stores.icechunk.survey",
                right="        elif file.spec > latest_spec:\n",
                wrong="        elif False:\n",
            ),
        ),
        test=f"{LOST}::test_repo_is_lost[True]",
    ),
    "snapshots of spec 2 count in a repository of spec 1": Bug(
        "reclaim.stores.icechunk.survey",
        right="        elif file.spec > latest_spec:\n",
        wrong="        elif False:\n",
        test=f"{LOST}::test_repo_is_lost[False]",
    ),
    "a log of Icechunk is read only as far as repo has it": Bug(
        "reclaim.stores.icechunk.repo_editor",
        right="            if not repo.before_updates:\n                return False\n",
        wrong="            return False\n",
        test=f"{LOST}::test_a_log_that_the_library_has_cut_short",
    ),
    "an unfinished commit keeps nothing": Bug(
        "reclaim.stores.icechunk.observing",
        right="files = history.faults if self.format.spec == 1 else modified\n",
        wrong="files = history.faults\n",
        test=f"{PLAN}::test_a_commit_that_was_not_finished[spec 2]",
    ),
    "logs of ancestors that were pruned go": Bug(
        "reclaim.stores.icechunk.history",
        right="for info in repo.snapshots if info.pruned}",
        wrong="for info in repo.snapshots if False}",
        test=f"{PLAN}::test_logs_of_pruned_ancestors_stay",
    ),
    "repo on a disk is written over what others wrote": Bug(
        "reclaim.storage.objects",
        right="                if self.get_version(address)[1] != version:\n",
        wrong="                if not version:\n",
        test=f"{APPLY}::test_a_commit_between_our_read_and_our_write",
    ),
    "what is taken out of repo is not written down": Bug(
        "reclaim.stores.icechunk.repo_editor",
        right="            self._withdrawn.write(known)\n",
        wrong="            pass\n",
        test=f"{APPLY}::test_a_run_that_dies_right_after_it_wrote_repo",
    ),
    "what has a ref is taken out of repo": Bug(
        "reclaim.stores.icechunk.repo_editor",
        right="if id in listed and id not in kept}",
        wrong="if id in listed}",
        test=f"{APPLY}::test_a_branch_that_is_made_before_a_snapshot_is_taken_out",
    ),
    "what is condemned can be referred to": Bug(
        "reclaim.stores.icechunk.held_repo",
        right="        return self._editor.follow(self._listed(), self.lock.check)\n",
        wrong="        return frozenset()\n",
        test=f"{CONTRACT}::test_a_mark_is_provisional[spec 2]",
    ),
    "a snapshot that is gone is put back into repo": Bug(
        "reclaim.stores.icechunk.repo_editor",
        right="        except NotFound:\n            return False\n",
        wrong="        except NotFound:\n            return True\n",
        test=f"{APPLY}::test_a_snapshot_without_its_file_is_not_put_back",
    ),
    "a parent that comes back late is lost": Bug(
        "reclaim.stores.icechunk.repo_editor",
        right="            if removed.is_back and id in present and",
        wrong="            if not removed.is_back and id in present and",
        test=f"{CONTRACT}::test_a_part_can_come_back_before_the_rest[spec 2]",
    ),
    "an update of repo is of the future": Bug(
        "reclaim.stores.icechunk.repo_document",
        right="to_micros(now - SAFETY.clock_skew)",
        wrong="to_micros(now)",
        test="tests/icechunk/test_repo_document.py::test_a_clock_that_is_ahead_holds_nobody_up",
    ),
    "an answer that is lost counts as a write that failed": Bug(
        "reclaim.stores.icechunk.repo_editor",
        right="        if not certain and not (landed := self._has_landed(backup)):\n",
        wrong="        if not certain and version:\n",
        test=f"{APPLY}::test_an_answer_that_is_lost[True]",
    ),
    "logs that a snapshot in quarantine needs go": Bug(
        "reclaim.stores.icechunk.observing",
        right="                    logs.update(withdrawn[at].entry.pruned())\n",
        wrong="",
        test=f"{APPLY}::test_logs_that_a_snapshot_in_quarantine_needs_stay",
    ),
    "a repo on a disk that is written over is not looked at again": Bug(
        "reclaim.stores.icechunk.repo_editor",
        right="            certain = self._swaps.swaps_atomically\n",
        wrong="            certain = True\n",
        test=f"{APPLY}::test_a_repo_that_is_written_over",
    ),
    "what is referred to again is made terminal": Bug(
        "reclaim.stores.icechunk.held_repo",
        right="        back = self._follow_lists() & ",
        wrong="        back = frozenset() & ",
        test=f"{APPLY}::test_a_repo_that_is_written_over_late",
    ),
    "the library of spec 2 is asked by an old reading": Bug(
        "reclaim.stores.icechunk.held_repo",
        right="        if set(history.refs) != set(seen.refs):\n",
        wrong="        if not seen:\n",
        test=f"{CONTRACT}::test_the_library_is_not_asked_by_an_old_reading[spec 2]",
    ),
    "what the library of spec 2 does to tips is not predicted": Bug(
        "reclaim.stores.icechunk.expiration",
        right="            stays[tip] = True\n",
        wrong="            stays[tip] = stays[tip]\n",
        test=f"{EXPIRATION}::test_the_library_does_what_is_predicted[spec 2-0]",
    ),
    "what the library takes out of repo is not written down": Bug(
        "reclaim.stores.icechunk.held_repo",
        right="        self._withdrawn.write({**self._withdrawn.read(), **pending})\n",
        wrong="",
        test=f"{EXPIRATION}::test_a_lease_holds_what_expires[spec 2-delete]",
    ),
    "what the library takes out beyond the plan does not come back": Bug(
        "reclaim.stores.icechunk.held_repo",
        right="        beyond = entries.keys() - after.keys() - leaving\n",
        wrong="        beyond = frozenset()\n",
        test=f"{EXPIRATION}::test_a_branch_that_goes_right_before_the_library_is_asked[spec 2]",
    ),
    "an edit by the library is not recorded": Bug(
        "reclaim.stores.icechunk.held_repo",
        right="        self._edits.write(run, record.after(earlier))\n",
        wrong="",
        besides=(
            Change(
                "reclaim.stores.icechunk.held_repo",
                right="record.without_refs(document.refs()).after(earlier)",
                wrong="EditRecord({}, {})",
            ),
        ),
        test=f"{EXPIRATION}::test_undo_brings_back_what_expired[spec 2]",
    ),
    "a plan names logs that are needed once the history is edited": Bug(
        "reclaim.stores.icechunk.store",
        drops="IcechunkStore.needed_once_edited: add",
        test=f"{EXPIRATION}::test_a_plan_names_no_log_that_is_needed[spec 2]",
    ),
    "our edit of repo is not recorded": Bug(
        "reclaim.stores.icechunk.repo_editor",
        drops="RepoEditor.edit: note",
        test=f"{OWN_EDIT}::test_one_run_edits_and_collects_and_comes_back",
    ),
    "our edit of repo is made by an old reading": Bug(
        "reclaim.stores.icechunk.repo_editor",
        right="        if not is_as_seen(document):\n",
        wrong="        if not document:\n",
        test=f"{CONTRACT}::test_an_edit_by_an_old_reading_is_not_made[spec 2]",
    ),
    "logs of what our edit passes over are lost": Bug(
        "reclaim.stores.icechunk.repo_editor",
        right="            id: entries[id].below(new, pruned_between(entries, id, new))\n",
        wrong="            id: entries[id].below(new, entries[id].pruned())\n",
        test=f"{OWN_EDIT}::test_logs_of_what_is_passed_over_are_kept",
    ),
    "our edit of repo stays when the run died": Bug(
        "reclaim.stores.icechunk.held_repo",
        right="            not_reverted = self._take_back(record).left\n            if (run :=",
        wrong="            not_reverted = []\n            if (run :=",
        test=f"{OWN_EDIT}::test_the_edit_of_a_run_that_died_is_taken_back",
    ),
    "an edit of repo that may be taken back is planned on": Bug(
        "reclaim.stores.icechunk.observing",
        right="            editor=self._editor(),\n",
        wrong="",
        test=f"{OWN_EDIT}::test_the_edit_of_a_run_that_died_is_taken_back",
    ),
    "what our edit of repo passed over is not promised": Bug(
        "reclaim.stores.icechunk.edit_records",
        right="        return frozenset((*parents, *self.refs.values()))\n",
        wrong="        return frozenset()\n",
        test=f"{OWN_EDIT}::test_what_a_lease_held_is_promised_for_the_window",
    ),
    "snapshots that were taken before an upgrade are unknown afterwards": Bug(
        "reclaim.stores.icechunk.held_repo",
        right="                if file.spec == 1:\n",
        wrong="                if file.spec == 3:\n",
        test="tests/icechunk/test_upgrade.py::test_what_was_taken_before_an_upgrade_comes_back",
    ),
    "backups go that the log names": Bug(
        "reclaim.stores.icechunk.held_repo",
        drops="HeldRepo.free_kinds: rotate_log",
        besides=(
            Change(
                "reclaim.stores.icechunk.backups",
                right="        if not rotated:\n",
                wrong="        if not repo:\n",
            ),
        ),
        test=f"{BACKUPS}::test_the_log_is_whole_afterwards[0 more updates]",
    ),
    "backups go in which the log goes on": Bug(
        "reclaim.stores.icechunk.backups",
        right="        names = set(self._chain(repo.before_updates))\n",
        wrong="        names: set[str] = set()\n",
        test=f"{BACKUPS}::test_the_log_is_whole_afterwards[0 more updates]",
    ),
    "backups are not looked for again before they go": Bug(
        "reclaim.stores.icechunk.held_repo",
        right="            self._observer.collects_backups = True\n",
        wrong="",
        test=f"{BACKUPS}::test_the_log_is_whole_afterwards[1 more updates]",
    ),
}

WRITES_SPEC_2 = int(version("icechunk").split(".")[0]) >= 2
"""Whether the installed library does; that of Python 3.11 does not."""
BUGS = OF_BOTH_SPECS | (OF_SPEC_2 if WRITES_SPEC_2 else {})
