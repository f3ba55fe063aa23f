"""Bugs that let a copy of a database or a store touch, or go by, what the original has."""

from __future__ import annotations

from tests.planted.bug import Bug

HOMES = "tests/catalog/test_homes.py"
STALE = "tests/collect/apply/test_stale_copies.py"
TERMINUS = "tests/terminus/test_copies.py"
SHELF = "tests/stores/test_shelf_copies.py"

BUGS: dict[str, Bug] = {
    "a database known by a name from the working folder": Bug(
        "reclaim.catalog.database.transactions",
        right="        return cls(engine, str(file.absolute()))\n",
        wrong="        return cls(engine, str(file))\n",
        test=f"{HOMES}::test_a_database_named_from_the_working_folder",
    ),
    "a file that cannot be looked at counts as the home": Bug(
        "reclaim.catalog.collection.clones.homes",
        right="        if identity is None and self._database.is_sqlite:",
        wrong="        if identity is None and not self._uid:",
        test=f"{HOMES}::test_a_file_that_is_not_there_any_more_has_no_home",
    ),
    "an idle instance leaves no epoch of what it staged": Bug(
        "reclaim.catalog.staging.partitions",
        drops="Partitions.renew: _announce",
        test=f"{STALE}::test_what_the_original_wrote_is_in_the_storage[stage and idle]",
    ),
    "an empty commit writes into a partition that nothing names": Bug(
        "reclaim.catalog.refs.committing",
        right="            if view.sealed and not named:",
        wrong="            if view.sealed and not view.name:",
        test=f"{STALE}::test_an_empty_commit_that_takes_what_another_sealed",
    ),
    "a copy beside a store goes by the plan of the original": Bug(
        "reclaim.run.sweep.removal",
        right="    return same_storage and planned.uid in (None, store.uid)\n",
        wrong="    return same_storage\n",
        test=f"{TERMINUS}::test_an_undo_in_a_copy[in it-whole-store2]",
    ),
    "an undo in a copy beside a store writes into the original": Bug(
        "reclaim.run.sweep.removal",
        right="    return same_storage and planned.uid in (None, store.uid)\n",
        wrong="    return same_storage\n",
        test=f"{TERMINUS}::test_an_undo_in_a_copy[in it-cut-stor2]",
    ),
    "a copy goes by what a library released in the original": Bug(
        "reclaim.run.expire.released",
        right='address = Place(*store.place(run.id)).at(run.edit.released_file.rpartition("/")[2])',
        wrong="address = run.edit.released_file",
        test=f"{SHELF}::test_the_list_of_what_a_library_released_is_the_copys_own",
    ),
}
