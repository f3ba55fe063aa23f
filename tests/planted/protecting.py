"""Bugs of the setting ``protect``: paths that are not asked for, and paths that are forgotten."""

from __future__ import annotations

from tests.planted.bug import Bug, Change

TEST = "tests/collect/protect/test_protect.py"
PROTECTION = "reclaim.run.roots.protection"
STAGED = f"{TEST}::test_any_staged_path_protects"

SINCE = "tests/collect/protect/test_protect_since.py"
CONFIRMED = f"{SINCE}::test_what_is_protected_while_rules_are_confirmed_stays"

BUGS: dict[str, Bug] = {
    "protect has no memory": Bug(
        PROTECTION,
        right="    memory = find_memory(store, opener(store.storage.url))\n    request",
        wrong="    memory = Memory()\n    request",
        test=f"{TEST}::test_the_path_of_a_dead_commit_is_remembered[plan]",
    ),
    "protect remembers nothing": Bug(
        PROTECTION,
        right="    if not planned.protected:\n",
        wrong="    if True:\n",
        test=f"{TEST}::test_the_path_of_a_dead_commit_is_remembered[clean]",
    ),
    "protect reads its memory before the dead containers": Bug(
        PROTECTION,
        right="    globs = seen.protect\n",
        wrong="    globs = seen.protect\n"
        "    memory = find_memory(store, opener(store.storage.url))\n",
        test=f"{TEST}::test_another_run_takes_the_containers_while_a_plan_is_made",
        besides=(
            Change(
                PROTECTION,
                "    memory = find_memory(store, opener(store.storage.url))\n    request",
                "    request",
            ),
        ),
    ),
    "protect does not ask what runs on uncommitted data read of dead containers": Bug(
        "reclaim.engine.work.shielding",
        right="            yield shielding.match_paths(table, globs)\n",
        wrong="            yield shielding.match_paths(table.slice(0, 0), globs)\n",
        test=f"{TEST}::test_any_path_of_an_object_protects_it[auto]",
    ),
    "an object is judged by one path": Bug(
        "reclaim.engine.tasks.judging",
        drops="_matching: append",
        test=f"{TEST}::test_any_path_of_an_object_protects_it[plan]",
    ),
    "a staged path that is replaced is forgotten": Bug(
        "reclaim.catalog.staging.staged_rows",
        right="    protected_paths.note_removed(",
        wrong="    (lambda *_: None)(",
        test=f"{STAGED}[a0-copied, and both deleted]",
    ),
    "a staged path that is cleaned is forgotten": Bug(
        "reclaim.catalog.staging.cleaner",
        drops="_clean_batch: note_removed",
        test=f"{STAGED}[a0-copied, and reset]",
    ),
    "the first path of what was committed is forgotten": Bug(
        "reclaim.catalog.staging.cleaner",
        drops="_clean_batch: note_settled",
        test=f"{TEST}::test_the_first_path_of_what_was_committed_under_another",
    ),
    "a few staged paths are compared": Bug(
        "reclaim.catalog.collection.roots.staged_paths",
        right="        for table in _tables(connection, query):\n            matching",
        wrong="        for table in _tables(connection, query.limit(MOST)):\n            matching",
        test=f"{TEST}::test_more_staged_paths_than_explain_a_plan",
    ),
    "the path of an upload is forgotten after a month": Bug(
        "reclaim.catalog.reaping.obsolete_rows",
        right="and_(upload_tokens.c.state == UploadState.EXPIRED, ~protects)",
        wrong="upload_tokens.c.state == UploadState.EXPIRED",
        test=f"{TEST}::test_an_upload_that_was_never_linked_stays_for_good",
    ),
    "a changed memory counts": Bug(
        PROTECTION,
        right="        if hashlib.sha256(data).hexdigest() != newest.sha256:\n",
        wrong="        if False:\n",
        test=f"{TEST}::test_a_memory_that_is_damaged_stops_every_plan[changed-protected.json]",
    ),
    "containers that cannot be read protect nothing": Bug(
        "reclaim.run.plan.planning",
        right="            in_doubt=protection.matches.unread > 0,\n",
        wrong="",
        test=f"{TEST}::test_a_container_that_cannot_be_read_keeps_everything",
    ),
    "a run that goes on forgets what is protected": Bug(
        "reclaim.run.apply.first_record",
        right="        protected=earlier.protected,\n",
        wrong="",
        test=f"{TEST}::test_a_run_that_died_and_goes_on",
    ),
    "protected paths since the plan are not asked for": Bug(
        "reclaim.catalog.collection.roots.observing",
        right="                files.append(file.removeprefix(prefix))\n"
        "                held += count\n",
        wrong="",
        test=f"{TEST}::test_a_path_that_an_object_had_between_plan_and_apply",
    ),
    "dead containers that were not asked are not missed": Bug(
        PROTECTION,
        right="    if matches.containers != containers.dead:\n",
        wrong="    if False:\n",
        test=f"{TEST}::test_containers_that_were_not_asked_are_missed",
    ),
    "commits that came and went since the plan are not asked": Bug(
        "reclaim.run.roots.protection",
        right="    named = dead_containers(seen, unplanned)\n",
        wrong="    named = dead_containers(seen, ())\n",
        test=f"{SINCE}::test_a_commit_that_came_and_went_since_the_plan_tells[plan]",
    ),
    "rules forget what is protected since their plan": Bug(
        "reclaim.run.lifecycle.promotion",
        drops="Promotion.confirm_until_promoted: _drop_protected",
        test=f"{SINCE}::test_what_another_run_remembered_since_the_plan_counts",
    ),
    "rules do not ask dead commits": Bug(
        "reclaim.run.lifecycle.planning",
        right="        dead = find_dead_ids(seen, decided) if seen.protect else frozenset()\n",
        wrong="        dead: frozenset[SnapshotId] = frozenset()\n",
        test=f"{SINCE}::test_rules_ask_dead_commits",
    ),
    "a memory that no record tells of is ignored": Bug(
        "reclaim.run.roots.protection",
        drops="find_memory: _check_known",
        test=f"{SINCE}::test_a_memory_that_no_record_tells_of_stops_every_plan[plan]",
    ),
    "a run that was cut off takes what was protected since": Bug(
        "reclaim.run.lifecycle.applying",
        right="closed = self._promotion.check_not_protected().closed",
        wrong="closed = self._promotion.observe().closed",
        test="tests/lifecycle/test_nets.py"
        "::test_what_was_protected_since_a_run_was_cut_off_stays[deleted]",
    ),
    "an undone run has given the memory up": Bug(
        PROTECTION,
        right=" and (run.phase is not Phase.UNDONE or run.protected.address)",
        wrong="",
        test=f"{SINCE}::test_a_memory_that_an_undone_run_gave_up_is_still_there",
    ),
    "a glob that comes while rules are confirmed keeps nothing": Bug(
        "reclaim.run.lifecycle.promotion",
        drops="Promotion.confirm_until_promoted: check_protected",
        test=f"{CONFIRMED}[a glob-before claims]",
    ),
    "a glob that comes right before a promotion keeps nothing": Bug(
        "reclaim.catalog.collection.condemn.claimed_addresses",
        right="        if not frozenset(read_settings(connection, workspace.repo_uid).protect) "
        "<= {*protect}:\n",
        wrong="        if False:\n",
        test=f"{CONFIRMED}[a glob-after the last read]",
    ),
}
