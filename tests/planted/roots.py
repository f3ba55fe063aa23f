"""Bugs of roots: each source, left out."""

from __future__ import annotations

from tests.planted.bug import Bug

TESTS = {
    "promises of runs that can be undone": "tests/collect/quarantine/test_promises.py"
    "::test_the_journal_stays_as_long_as_the_window",
    "history edits that can be undone": "tests/lifecycle/test_released.py"
    "::test_what_an_expiration_took_out_of_history_is_held[before the plan]",
    "checkpoint": "tests/collect/uncommitted/test_uncommitted_checkpoints.py"
    "::test_old_versions_are_collected_and_the_newest_stays",
    "memory of protected paths": "tests/collect/protect/test_protect.py"
    "::test_files_of_the_memory_are_kept_and_old_ones_go",
    "needs of re-parented snapshots": "tests/icechunk/test_contract.py"
    "::TestIcechunkStore::test_what_is_needed_once_edited_is_not_named[spec 2]",
    "needs of promised snapshots": "tests/collect/quarantine/test_windows.py"
    "::test_a_commit_of_which_a_run_took_a_part_is_its_own[deletes]",
}

BUGS: dict[str, Bug] = {
    f"no root: {name}": Bug(
        "reclaim.run.roots.roots",
        right=f'    RootSource("{name}", ',
        wrong=f'    RootSource("{name}", lambda seen, _: seen) if True else RootSource("", ',
        test=test,
    )
    for name, test in TESTS.items()
} | {
    "a root that comes after the claims of a lifecycle run is not asked": Bug(
        "reclaim.run.lifecycle.promotion",
        drops="Promotion.confirm_until_promoted: _drop_held",
        test="tests/run/test_roots.py::test_a_root_that_comes_after_the_claims_keeps_its_object",
    )
}
