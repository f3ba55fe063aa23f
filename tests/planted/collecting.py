"""Bugs of collection, from a plan to its purge."""

from __future__ import annotations

from tests.planted.bug import Bug, Change

BETWEEN = "tests/collect/apply/test_between.py"
IN_FLIGHT = "tests/collect/plan/test_in_flight.py"
RACES = "tests/collect/apply/test_races.py"
ODD_KEYS = "tests/collect/plan/test_odd_keys.py"
UPLOADS = "tests/collect/plan/test_uploads.py"
REFUSED_PLANS = "tests/collect/apply/test_refused_plans.py"
STALE = "tests/collect/apply/test_stale_copies.py"
EPOCHS = "tests/catalog/test_epochs.py"
LETTERS = "tests/collect/plan/test_letters.py"
LINKS = "tests/collect/plan/test_links.py"
LOCAL_FOLDER = "tests/storage/test_local_folder.py"
KEY_RANGES = "tests/storage/test_key_ranges.py"


BUGS: dict[str, Bug] = {
    "commits that were counted are not compared": Bug(
        "reclaim.run.plan.decide",
        right="        if expected != read:\n",
        wrong="        if False:\n",
        test="tests/collect/plan/test_counted.py::test_an_apply_that_misses_a_commit",
    ),
    "metaranges are counted as they were read": Bug(
        "reclaim.run.plan.decide",
        right="(seen.expected.containers, seen.read.containers)",
        wrong="(seen.read.containers, seen.read.containers)",
        test="tests/collect/plan/test_counted.py::test_a_commit_whose_containers_are_missed",
    ),
    "an expiration does not count": Bug(
        "reclaim.run.plan.history_only",
        right="expected=SnapshotCounts(history.count, 0),",
        wrong="expected=SnapshotCounts(len(ids), 0),",
        test="tests/collect/plan/test_counted.py::test_an_expiration_that_misses_a_commit",
    ),
    "confirm skipped": Bug(
        "reclaim.run.apply.confirming",
        right="fresh = live_containers(seen, kept)",
        wrong="""import dataclasses
    seen = dataclasses.replace(seen, held=(), held_count=0)
    fresh = live_containers(seen, ())""",
        test=f"{BETWEEN}::test_what_is_referenced_again_stays[embedded-a tag]",
    ),
    "confirm by time instead of by id": Bug(
        "reclaim.run.apply.confirming",
        right="kept = now.live - decided.live | torn",
        wrong="""kept = {
        snapshot.id for snapshot in seen.snapshots
        if snapshot.id in now.live and snapshot.written_at >= context.planned.started_at
    }""",
        test=f"{BETWEEN}::test_what_is_referenced_again_stays[embedded-a branch]",
    ),
    "database read before the listing": Bug(
        "reclaim.run.plan.planning",
        right="""        with stage("list", unit=OBJECTS) as listing_stage:
""",
        wrong="""        request = ObserveRequest(
            context.storage, work.at("roots/"), engine, options.margins.objects
        )
        seen = store.observe(request)
        store.observe = lambda *_: seen
        with stage("list", unit=OBJECTS) as listing_stage:
""",
        test=f"{IN_FLIGHT}::test_a_writer_at_work_while_a_plan_is_made[embedded]",
    ),
    "leases forgotten": Bug(
        "reclaim.catalog.collection.roots.observing",
        right="leases=valid,",
        wrong="leases=(),",
        test=f"{BETWEEN}::test_a_lease_keeps_what_it_reaches[embedded]",
    ),
    "a lease on a condemned commit still holds": Bug(
        "reclaim.catalog.collection.roots.observing",
        right="if lease.valid_at(now) and lease.id not in void",
        wrong="if lease.valid_at(now)",
        test="tests/collect/apply/test_clock_back.py"
        "::test_a_lease_on_what_was_collected_holds_nothing[collected]",
    ),
    "a lease on a missing commit holds nothing": Bug(
        "reclaim.catalog.collection.roots.observing",
        right="if lease.valid_at(now) and lease.id not in void",
        wrong="if lease.valid_at(now) and lease.snapshot in {row.id for row in"
        " connection.execute(select(commits.c.id))}",
        test="tests/collect/apply/test_clock_back.py"
        "::test_a_lease_on_a_commit_that_never_was_stops_a_run",
    ),
    "a commit leaves no epoch": Bug(
        "reclaim.catalog.refs.committing",
        drops="commit.write: write_epoch_marker",
        test=f"{STALE}::test_what_the_original_wrote_is_in_the_storage[commit, abandoned]",
    ),
    "closing leaves no epoch": Bug(
        "reclaim.catalog.staging.partitions",
        right="            if partition.objects:\n",
        wrong="            if False:\n",
        test=f"{STALE}::test_what_the_original_wrote_is_in_the_storage[stage, closed]",
    ),
    "minutes of staging leave no epoch": Bug(
        "reclaim.catalog.staging.partitions",
        right="now - partition.counted_at > RENEW_EVERY // MICROSECOND:",
        wrong="False:",
        test=f"{STALE}"
        "::test_what_the_original_wrote_is_in_the_storage[stage for minutes, abandoned]",
    ),
    "only the newest epoch compared": Bug(
        "reclaim.catalog.collection.clones.epochs",
        right="        if epoch > counted.get(writer, 0) or (\n",
        wrong="        if epoch > known.epoch or (\n",
        test=f"{STALE}::test_a_copy_that_counted_on_sees_what_the_original_counted",
    ),
    "an earlier epoch taken for a copy's": Bug(
        "reclaim.catalog.collection.clones.epochs",
        right="        if epoch > counted.get(writer, 0) or (\n",
        wrong="        if epoch != known.epoch or (\n",
        test=f"{EPOCHS}::test_an_epoch_may_be_left_after_a_later_one[embedded]",
    ),
    "an epoch of another copy overwritten": Bug(
        "reclaim.catalog.collection.clones.epochs",
        right="self._storage.put(marker, writer.encode(), create=True)",
        wrong="self._storage.put(marker, writer.encode())",
        test=f"{EPOCHS}::test_two_clones_that_open_at_once_are_noticed",
    ),
    "epochs that go while they are read are not there": Bug(
        "reclaim.catalog.collection.clones.epochs",
        right="            continue\n    raise StorageUnavailable(",
        wrong="            return {}\n    raise StorageUnavailable(",
        test=f"{EPOCHS}::test_epochs_that_go_whenever_they_are_read[embedded]",
    ),
    "the partition of a commit in flight counted as overdue": Bug(
        "reclaim.catalog.collection.roots.observing",
        right='by_state["in flight" if row.id in in_flight else "overdue"].append(row.id)',
        wrong='by_state["overdue"].append(row.id)',
        test=f"{STALE}::test_a_commit_that_died_is_collected_once_its_changes_have_landed",
    ),
    "the partition of a commit in flight closed": Bug(
        "reclaim.catalog.collection.condemn.commit_states",
        right="partitions.c.id.not_in(tokens.partitions_in_flight(workspace.repo_uid)),",
        wrong="",
        test=f"{STALE}::test_in_flight_while_the_database_is_copied[commit]",
    ),
    "a merge in flight not announced": Bug(
        "reclaim.catalog.refs.merging",
        right="tokens.announce(connection, view, partition.id), epoch",
        wrong='tokens.announce(connection, view, ""), epoch',
        test=f"{STALE}::test_in_flight_while_the_database_is_copied[merge]",
    ),
    "a plan by any database": Bug(
        "reclaim.catalog.collection.clones.copies",
        right="    check_epoch(workspace)\n    workspace.home.check()\n",
        wrong="    check_epoch(workspace)\n",
        test=f"{STALE}::test_a_copy_may_not_plan",
    ),
    "an apply by any database": Bug(
        "reclaim.catalog.collection.clones.copies",
        right="    workspace.home.claim()\n    workspace.home.check()\n",
        wrong="    workspace.home.claim()\n",
        test=f"{STALE}::test_a_copy_may_not_apply_undo_or_purge",
    ),
    "a copy takes over the home": Bug(
        "reclaim.catalog.collection.clones.homes",
        right="            self._storage.put(HOME, self._encoded(identity), create=True)\n",
        wrong="            self._storage.put(HOME, self._encoded(identity))\n",
        test="tests/catalog/test_homes.py::test_a_copy_of_an_older_catalog_does_not_take_it_over",
    ),
    "sealed tokens forgotten": Bug(
        "reclaim.catalog.collection.roots.observing",
        right="staging_tokens.c.state.in_((TokenState.OPEN, TokenState.SEALED)),",
        wrong="staging_tokens.c.state.in_((TokenState.OPEN,)),",
        test=f"{IN_FLIGHT}::test_a_sealed_change_is_held[embedded]",
    ),
    "tags forgotten": Bug(
        "reclaim.catalog.refs.refs",
        right="*(_tag(row) for row in connection.execute(marks)),",
        wrong="",
        test=f"{BETWEEN}::test_a_tag_keeps_what_it_reaches[embedded]",
    ),
    "open partitions forgotten": Bug(
        "reclaim.catalog.collection.roots.observing",
        right='by_state["open"].append(row.id)',
        wrong='by_state["closed"].append(row.id)',
        test=f"{IN_FLIGHT}::test_bytes_in_flight_are_in_an_open_partition[embedded-put]",
    ),
    "a range reused that is not the parents'": Bug(
        "reclaim.catalog.content.range_writer",
        right="return {info.digest: info for tree in trees for info in tree.ranges}",
        wrong="""SEEN.update({info.digest: info for tree in trees for info in tree.ranges})
    return SEEN


SEEN: dict[str, RangeInfo] = {}""",
        test=f"{IN_FLIGHT}::test_a_commit_in_flight_does_not_lean_on_a_dying_range[embedded]",
    ),
    "the head checked but not the sealed tokens": Bug(
        "reclaim.catalog.staging.tokens",
        right="if _view(connection, view.repo_uid, view.name, lock=lock) != view:",
        wrong="if _view(connection, view.repo_uid, view.name, lock=lock).head != view.head:",
        test=f"{IN_FLIGHT}::test_a_reset_during_a_commit_wins[embedded]",
    ),
    "only the plan's dead commits condemned": Bug(
        "reclaim.run.apply.condemning",
        right="and snapshot not in seen.marked\n",
        wrong="and snapshot not in seen.marked and snapshot in decided.dead\n",
        test=f"{BETWEEN}::test_a_commit_on_a_dead_one_is_condemned_with_it",
    ),
    "overdue partitions counted as closed": Bug(
        "reclaim.run.apply.context",
        right="                settled=True,\n",
        wrong="",
        test=f"{IN_FLIGHT}::test_a_partition_that_becomes_overdue_too_late_is_not_counted_as_closed",
    ),
    "one look instead of one after the marks": Bug(
        "reclaim.run.apply.condemning",
        right="        held.condemn(unmarked)\n",
        wrong="        held.condemn(unmarked)\n        return seen, now\n",
        test=f"{RACES}::test_a_race_inside_apply[a branch-before the marks]",
    ),
    "deletes after the deadline": Bug(
        "reclaim.engine.tasks.deleting",
        right="    for start in range(0, rows.num_rows, PAGE):\n",
        wrong="""    in_time = lambda: True
    for start in range(0, rows.num_rows, PAGE):
""",
        test="tests/collect/locks/test_locks.py"
        "::test_a_lock_that_is_lost_in_the_middle_of_the_sweep[embedded-range]",
    ),
    "addresses not checked": Bug(
        "reclaim.engine.tasks.deleting",
        right="    if not pc.all(inside, min_count=0).as_py():\n",
        wrong="    if False:\n",
        test=f"{REFUSED_PLANS}::test_an_address_outside_the_store[{{own}}../x]",
    ),
    "the hash of a plan's file not compared": Bug(
        "reclaim.engine.tasks.parts",
        right="if hashlib.sha256(data).hexdigest() != part.sha256:",
        wrong="if False:",
        test=f"{REFUSED_PLANS}::test_a_file_of_a_plan_edited_by_hand",
    ),
    "an unreadable live container skipped": Bug(
        "reclaim.engine.tasks.reading",
        right='        if container["cause"] == LIVE:\n            raise\n        return None\n',
        wrong="        return ENTRIES.empty_table()\n",
        test="tests/collect/plan/test_refusals.py"
        "::test_a_damaged_container_of_a_live_commit[truncated-range]",
    ),
    "a plan applied again from the sweep, without what was journalled": Bug(
        "reclaim.run.apply.collecting",
        right="journal.taken(kind)",
        wrong="frozenset()",
        test="tests/collect/apply/test_crash.py"
        "::test_an_apply_that_dies_at_any_step[embedded-sets aside]",
    ),
    "a key at a boundary listed by nobody": Bug(
        "reclaim.storage.key_range",
        right="key <= self.until)",
        wrong="key < self.until)",
        test=f"{KEY_RANGES}::test_a_key_at_a_boundary_belongs_to_the_range_that_ends_there",
    ),
    "a range ended by a storage that lists in no order": Bug(
        "reclaim.storage.bounded",
        right="if key <= self._last:",
        wrong="if False:",
        test=f"{KEY_RANGES}::test_a_storage_that_lists_in_no_order_is_refused",
    ),
    "a copy that is another name of the same file": Bug(
        "reclaim.storage.objects",
        right="self._local.copy(source, target)",
        wrong="obstore.copy(self._store, source, target)",
        test="tests/collect/quarantine/test_undo.py::test_an_undo_leaves_what_was_copied_from_as_it_is",
    ),
    "mounts met by a listing": Bug(
        "reclaim.storage.local_folder",
        drops="LocalFolder.files: check_mounts",
        test="tests/storage/test_mounts.py::"
        "test_folders_directly_below_may_be_mounts_that_have_no_file_in_common",
    ),
    "a folder of others is taken for a partition": Bug(
        "reclaim.engine.tasks.judging",
        right="pc.equal(shape, FOREIGN))\n",
        wrong="pa.scalar(False))\n",
        test="tests/collect/plan/test_odd_keys.py::test_a_foreign_folder_does_not_stop_a_run[embedded]",
    ),
    "links followed by a listing": Bug(
        "reclaim.storage.local_folder",
        right="                    status = os.stat(name, dir_fd=handle, follow_symlinks=False)\n",
        wrong="                    status = os.stat(name, dir_fd=handle)\n",
        test=f"{LINKS}::test_a_link_refuses_the_plan[an object]",
    ),
    "links followed on the way to what is deleted": Bug(
        "reclaim.storage.local_folder",
        right="_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW",
        wrong="_FOLDER = os.O_RDONLY | os.O_DIRECTORY",
        test=f"{LINKS}::test_a_link_that_is_put_there_after_the_plan[deletes]",
    ),
    "files deleted by their paths": Bug(
        "reclaim.storage.local_folder",
        right="            _unlink(self._walk(folder), names)\n",
        wrong="""            os.close(self._walk(folder))
            for name in names:
                os.unlink(f"{self.path}/{folder}/{name}")
""",
        test=f"{LOCAL_FOLDER}::test_a_link_that_is_put_there_between_check_and_use[1]",
    ),
    "branches that share a folder where letters are not told apart": Bug(
        "reclaim.catalog.addresses",
        right='re.compile(r"[^a-z0-9._-]")',
        wrong='re.compile(r"[^A-Za-z0-9._-]")',
        test=f"{LETTERS}::test_new_branches_share_no_folder",
    ),
    "keys that tell capital letters from small ones": Bug(
        "reclaim.engine.tasks.keys",
        right="            word |= _SMALL\n",
        wrong="",
        test="tests/spark/test_engine.py::test_keys_do_not_tell_capital_letters_from_small_ones",
    ),
    "an undo that tells capital letters from small ones": Bug(
        "reclaim.engine.tasks.reading",
        right="return pc.utf8_lower(addresses)",
        wrong="return addresses",
        test=f"{LETTERS}::test_an_undo_finds_what_lies_under_other_letters",
    ),
    "odd keys judged like others": Bug(
        "reclaim.engine.tasks.judging",
        right="    odd = pc.or_(pc.match_substring_regex(address, ODD_ADDRESS), ",
        wrong='    odd = pc.or_(pc.equal(address, ""), ',
        test=f"{ODD_KEYS}::test_odd_keys_in_a_deleted_repository[embedded]",
        sequence="odd keys",
    ),
    "an odd key stops the listing": Bug(
        "reclaim.storage.objects",
        right="UNREADABLE_KEY = (foreign.InvalidPathError, ValueError)",
        wrong="UNREADABLE_KEY = (KeyError,)",
        test="tests/storage/test_odd_keys.py::test_every_key_is_listed_once",
        sequence="odd keys in a bucket",
    ),
    "uploads of writers at work are given up": Bug(
        "reclaim.stores.catalog.uploads",
        right="        done = partition not in not_closed and upload",
        wrong="        done = upload",
        test=f"{UPLOADS}::test_a_writer_that_is_at_work_is_left_alone",
        sequence="uploads that were never finished",
    ),
    "young uploads are given up": Bug(
        "reclaim.stores.catalog.uploads",
        right="not in not_closed and upload.begun_at < cutoff",
        wrong="not in not_closed",
        test=f"{UPLOADS}::test_a_young_upload_is_left_alone",
        sequence="uploads that were never finished",
    ),
    "large objects are moved by one request": Bug(
        "reclaim.storage.objects",
        right="        if size > buckets.LARGEST_COPY:\n",
        wrong="        if False:\n",
        test=f"{UPLOADS}::test_a_large_object_is_moved_in_parts",
        sequence="copies in parts",
    ),
    "large versions are renewed by one request": Bug(
        "reclaim.storage.buckets",
        right="            if size <= LARGEST_COPY:\n",
        wrong="            if True:\n",
        test=f"{UPLOADS}::test_a_large_version_is_renewed_in_parts",
        sequence="copies in parts, of what markers cover",
    ),
    "a second lease that shortens the first": Bug(
        "reclaim.catalog.refs.leases",
        right="holder, now, max(until) - now)",
        wrong="holder, now, length)",
        test="tests/catalog/test_leases.py::test_holding_again_never_shortens[embedded-shorter0]",
    ),
    "a home that tells nothing is everybody's": Bug(
        "reclaim.catalog.database.identity",
        right="    return any(fact != KIND for fact in facts)",
        wrong="    return facts is not None",
        test="tests/catalog/test_homes.py::test_facts_that_tell_nothing_are_nobodys[facts0]",
    ),
    "a home that is not looked at after it was claimed": Bug(
        "reclaim.catalog.collection.clones.copies",
        right="""    workspace.home.claim()
    workspace.home.check()
""",
        wrong="""    workspace.home.check()
    workspace.home.claim()
""",
        test="tests/catalog/test_homes.py::test_two_first_collectors_do_not_both_go_on",
    ),
    "a plan that goes on with a run of another kind": Bug(
        "reclaim.run.apply.preconditions",
        right="    if run.kind != planned.run_kind:",
        wrong="    if not run.kind:",
        test="tests/collect/apply/test_trust.py::test_a_plan_with_the_name_of_another_kind_of_run",
        besides=(
            Change(
                "reclaim.run.apply.preconditions",
                drops="check_begun: _check_same_plan",
            ),
        ),
    ),
}
