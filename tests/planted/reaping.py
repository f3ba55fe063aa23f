"""Bugs of the reaper and of the rows that it relies on."""

from __future__ import annotations

from tests.planted.bug import Bug

TEST = "tests/catalog/test_reaper.py"

BUGS: dict[str, Bug] = {
    "the reaper without the condemned check": Bug(
        "reclaim.catalog.reaping.backlog",
        right="""            ledger.c.state == LedgerState.CONDEMNED,
            ledger.c.run_id.is_(None),
            ledger.c.condemned_at <= now - MARGIN // MICROSECOND,
""",
        wrong="""            ledger.c.run_id.is_(None),
            ledger.c.created_at <= now - MARGIN // MICROSECOND,
""",
        test=f"{TEST}::test_what_is_staged_stays_however_old_it_is[embedded]",
    ),
    "the reaper takes rows of a run": Bug(
        "reclaim.catalog.reaping.backlog",
        right="            ledger.c.run_id.is_(None),\n",
        wrong="",
        test=f"{TEST}::test_rows_of_a_run_are_its_own",
    ),
    "the cleaner takes out rows of a run": Bug(
        "reclaim.catalog.staging.ledger",
        right="        connection.execute(delete(ledger).where(settled, live))\n",
        wrong="        connection.execute(delete(ledger).where(settled))\n",
        test="tests/catalog/test_ledger.py::"
        "test_the_cleaner_leaves_what_a_run_has_condemned[embedded]",
    ),
    "the reaper without its margin": Bug(
        "reclaim.catalog.reaping.backlog",
        right="now - MARGIN // MICROSECOND,",
        wrong="now,",
        test=f"{TEST}::test_what_nothing_refers_to_goes[embedded-delete]",
    ),
    "the reaper without the check of epochs": Bug(
        "reclaim.catalog.reaping.reaper",
        drops="Reaper._check: check_epoch",
        test=f"{TEST}::test_a_copy_of_the_database_deletes_nothing",
    ),
    "the reaper of a database that is not the home": Bug(
        "reclaim.catalog.reaping.reaper",
        drops="Reaper._check: require",
        test=f"{TEST}::test_a_copy_of_the_database_deletes_nothing",
    ),
    "rows forgotten of objects that could not be deleted": Bug(
        "reclaim.catalog.reaping.reaper",
        right="            self._note(repo_uid, gone)\n",
        wrong="            self._note(repo_uid, due)\n",
        test=f"{TEST}::test_what_cannot_be_deleted_is_tried_again_and_holds_up_nobody",
    ),
    "hard delete asked for once a round": Bug(
        "reclaim.catalog.reaping.reaper",
        right="if not read_settings(connection, repo_uid).hard_delete:",
        wrong="if last is None and not read_settings(connection, repo_uid).hard_delete:",
        test=f"{TEST}::test_it_is_switched_off_in_the_middle",
    ),
    "the reaper takes what a run may have set aside": Bug(
        "reclaim.catalog.reaping.backlog",
        right="            ledger.c.created_at > promised,\n",
        wrong="",
        test=f"{TEST}::test_what_a_run_set_aside_is_left_to_it",
    ),
    "a reaper where no home is registered": Bug(
        "reclaim.catalog.reaping.reaper",
        right="        self.home.require()\n",
        wrong="        self.home.check()\n",
        test=f"{TEST}::test_nothing_goes_where_no_home_is_registered",
    ),
    "the reaper by any clock": Bug(
        "reclaim.catalog.reaping.reaper",
        drops="Reaper.reap: _check_clock",
        test=f"{TEST}::test_a_clock_that_jumped[reap]",
    ),
    "clean by any clock": Bug(
        "reclaim.catalog.catalog",
        drops="Catalog.clean: check_clock",
        test=f"{TEST}::test_a_clock_that_jumped[clean]",
    ),
    "a branch deleted under a writer": Bug(
        "reclaim.catalog.collection.edit.history_edit",
        drops="_delete_ref: lock_tokens",
        test="tests/catalog/test_isolation.py"
        "::test_an_expiration_does_not_drop_what_is_just_being_staged[server]",
    ),
    "addresses of the ledger not checked": Bug(
        "reclaim.catalog.reaping.reaper",
        drops="Reaper._delete: check_inside",
        test=f"{TEST}::test_an_address_that_is_not_the_repositorys_own",
    ),
    "rows removed of objects that are there": Bug(
        "reclaim.catalog.reaping.missing_objects",
        right="for address, exists in checked if not exists",
        wrong="for address, exists in checked",
        test=f"{TEST}::test_rows_of_objects_that_are_there_stay",
    ),
    "a partition that has objects is forgotten": Bug(
        "reclaim.catalog.reaping.empty_partitions",
        right="    return folders.keys() - empty\n",
        wrong="    return set()\n",
        test=f"{TEST}::test_partitions_in_which_nothing_is_left[embedded]",
    ),
    "a folder in a bucket is taken for empty": Bug(
        "reclaim.storage.leftover_folders",
        right='    return next(iter(storage.list(folder.rstrip("/"))), None) is None\n',
        wrong="    return True\n",
        test="tests/storage/test_leftover_folders.py::test_a_folder_of_objects_that_are_gone",
    ),
    "a folder that is gone hides an object in an unknown partition": Bug(
        "reclaim.run.plan.planning",
        right="_known_by_name(store, listing, seen) | strangers, seen)\n",
        wrong="_known_by_name(store, listing, seen), seen)\n",
        test="tests/collect/plan/test_refusals.py"
        "::test_an_unknown_partition_with_an_object_is_not_empty",
    ),
    "an unknown partition is taken for empty": Bug(
        "reclaim.run.plan.planning",
        right="all(is_leftover(store.storage, folder) for folder in folders)\n",
        wrong="True\n",
        test="tests/collect/plan/test_refusals.py::test_an_unknown_partition_in_which_all_is_live",
    ),
    "paths are copied into the ledger as they are": Bug(
        "reclaim.catalog.database.bulk",
        right="value.translate(_ESCAPES)",
        wrong="value",
        test="tests/catalog/test_ledger.py::test_many_uploads_enter_with_any_path[server]",
    ),
    "an upload that expires is not condemned": Bug(
        "reclaim.catalog.staging.upload_expiry",
        right="    connection.execute(insert(ledger), condemned)\n",
        wrong="",
        test=f"{TEST}::test_an_upload_that_nobody_linked[embedded]",
    ),
}
