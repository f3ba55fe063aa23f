"""Bugs of the command line: what is undone, released or sent elsewhere by mistake."""

from __future__ import annotations

from tests.planted.bug import Bug

RETENTION = "tests/cli/test_retention.py"
SETTINGS = "tests/cli/test_settings.py"
MOMENTS = "tests/catalog/test_moments.py"
API = "tests/api/test_store.py"

BUGS: dict[str, Bug] = {
    "a name that fits several runs is the first of them": Bug(
        "reclaim.api.run",
        right="    if len(fitting) > 1:\n",
        wrong="    if not fitting:\n",
        test=f"{RETENTION}::test_a_name_that_fits_several_runs_undoes_none",
    ),
    "the latest run is purged without a question": Bug(
        "reclaim.cli.commands.purge",
        right="    if run == LATEST and yes:\n",
        wrong="    if run == LATEST and not yes:\n",
        test="tests/cli/test_quarantine.py::test_a_purge_of_one_run",
    ),
    "leases of others are released without a question": Bug(
        "reclaim.cli.commands.lease",
        right="            if everything and matching:\n",
        wrong="            if everything and not matching:\n",
        test=f"{RETENTION}::test_leases_of_a_holder_and_all",
    ),
    "leases of others go with those of a holder": Bug(
        "reclaim.cli.commands.lease",
        right="if holder in (None, held.holder)]",
        wrong="if held.holder]",
        test=f"{RETENTION}::test_leases_of_a_holder_and_all",
    ),
    "a file that others write says where Spark runs": Bug(
        "reclaim.cli.config.settings",
        right="    if setting.guarded and not file.private:\n",
        wrong="    if setting.guarded and file is None:\n",
        test=f"{SETTINGS}::test_others_cannot_send_the_work_elsewhere",
    ),
    "a key that nobody knows is ignored": Bug(
        "reclaim.cli.config.settings",
        right="for entry in file.entries}",
        wrong="for entry in file.entries if entry.key in BY_KEY}",
        test=f"{SETTINGS}::test_what_is_close_is_suggested",
    ),
    "a moment ends where it begins": Bug(
        "reclaim.catalog.refs.moments",
        right="        return begin.astimezone(UTC) + _length(parts)\n",
        wrong="        return begin.astimezone(UTC)\n",
        test=f"{MOMENTS}::test_a_moment_is_as_long_as_it_is_written",
    ),
    "a commit that is being collected is named by its time": Bug(
        "reclaim.catalog.refs.commits",
        right="            return get(connection, repo_uid, commit.id)\n",
        wrong="            return commit\n",
        test=f"{MOMENTS}::test_a_commit_that_was_collected[embedded]",
    ),
    "a lease of the same holder is replaced": Bug(
        "reclaim.api.store",
        right='        own = f"{holder or _login()} ({new_uid()[:8]})"\n',
        wrong="        own = holder or _login()\n",
        test=f"{API}::test_leases_of_the_same_holder_do_not_replace_each_other",
    ),
    "a lost lease is not noticed": Bug(
        "reclaim.api.store",
        right="            self._lost = error\n",
        wrong="            del error\n",
        test=f"{API}::test_a_lost_lease_ends_the_block_with_an_error",
    ),
    "a misspelt option of an apply is ignored": Bug(
        "reclaim.api.plan",
        drops="Plan.apply: refuse_unknown",
        test=f"{API}::test_a_misspelt_option_is_not_ignored",
    ),
    "old backups are collected by every later plan": Bug(
        "reclaim.api.options",
        right="        store.collect_backups(asked)\n",
        wrong="        store.collect_backups(asked or store.format.backups)\n",
        test="tests/api/test_other_stores.py::test_an_option_of_a_plan_holds_for_that_plan_alone",
    ),
    "the latest plan is applied without a question": Bug(
        "reclaim.cli.commands.apply",
        right="    elif plan == LATEST and yes:\n",
        wrong="    elif plan == LATEST and not yes:\n",
        test="tests/cli/test_plan_names.py"
        "::test_the_latest_plan_needs_a_confirmation_or_its_digest",
    ),
    "a quarantine of a history-only run is ignored": Bug(
        "reclaim.api.store",
        drops="OpenStore.gc_with: refuse_deletions",
        test=f"{API}::test_kinds_of_runs",
    ),
}
