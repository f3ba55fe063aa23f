"""Bugs of runs on uncommitted data: an incremental run that looks at too little, or too much."""

from __future__ import annotations

from tests.planted.bug import Bug, Change

TEST = "tests/collect/uncommitted/test_uncommitted.py"
OF_CHECKPOINTS = "tests/collect/uncommitted/test_uncommitted_checkpoints.py"
EXTENT = "tests/collect/uncommitted/test_uncommitted_extent.py"
ONE = "tests/lifecycle/test_one_checkpoint.py"
SCOPE = "tests/run/test_uncommitted_scope.py"
DECIDING = "reclaim.run.uncommitted.scope"
PLANNING = "reclaim.run.uncommitted.planning"
CHECKPOINTS = "reclaim.run.record.checkpoints"
INDEXING = "reclaim.run.plan.indexing"
SAVING = "reclaim.run.uncommitted.saving"

AGAIN = "tests/lifecycle/test_begun_again.py"

BUGS: dict[str, Bug] = {
    "staged addresses are carried though a commit has them": Bug(
        "reclaim.engine.pipelines.uncommitted",
        right="    notes.carried = [*survivors.parts, *waiting]\n",
        wrong="    notes.carried = [*objects.parts, *waiting]\n",
        test=f"{TEST}::TestTraps::test_committed_long_ago_copied_into_staging_checkpointed_reset",
    ),
    "the index is not asked for partitions that are listed": Bug(
        DECIDING,
        right='    return frozenset((*listed, *dead)) - {""}\n',
        wrong='    return frozenset(dead) - {""}\n',
        test=f"{TEST}::TestTraps::test_committed_in_a_partition_that_was_open_at_the_last_run",
    ),
    "the index is not asked for partitions of dead entries": Bug(
        DECIDING,
        right='    return frozenset((*listed, *dead)) - {""}\n',
        wrong='    return frozenset(listed) - {""}\n',
        test=f"{TEST}::TestTraps::test_a_dead_commit_shares_an_address_with_an_old_one",
    ),
    "the model does not look up partitions that are listed": Bug(
        DECIDING,
        right='    return frozenset((*listed, *dead)) - {""}\n',
        wrong='    return frozenset(dead) - {""}\n',
        test=f"{SCOPE}::test_a_trap[committed in a partition that was open at the last run]",
    ),
    "the model does not look up partitions of dead entries": Bug(
        DECIDING,
        right='    return frozenset((*listed, *dead)) - {""}\n',
        wrong='    return frozenset(listed) - {""}\n',
        test=f"{SCOPE}::test_a_trap[a dead commit shares an address with an old one]",
    ),
    "a checkpoint counts after an undo or an adoption": Bug(
        CHECKPOINTS,
        right="    if barriers - known.barriers:\n",
        wrong="    if False:\n",
        test=f"{OF_CHECKPOINTS}::TestInvalid::test_after_an_undo",
    ),
    "an adoption is not recorded": Bug(
        "reclaim.catalog.collection.clones.copies",
        right="            records.insert_run(connection, workspace, run)\n",
        wrong="            del run\n",
        test=f"{OF_CHECKPOINTS}::TestInvalid::test_after_partitions_were_adopted",
    ),
    "a checkpoint of another version counts": Bug(
        CHECKPOINTS,
        right='        if body["format"] != FORMAT:\n',
        wrong="        if False:\n",
        test=f"{OF_CHECKPOINTS}::TestInvalid::test_of_another_version",
    ),
    "a checkpoint that somebody changed counts": Bug(
        CHECKPOINTS,
        right="    if hashlib.sha256(data).hexdigest() != saved.sha256:\n",
        wrong="    if False:\n",
        test=f"{OF_CHECKPOINTS}::TestInvalid::test_that_somebody_changed",
    ),
    "commits that another run took are not missed": Bug(
        PLANNING,
        right="        if changes.lost:\n",
        wrong="        if False:\n",
        test=f"{OF_CHECKPOINTS}::TestInvalid::test_of_a_store_whose_commits_another_run_took",
    ),
    "a partition is final while an upload into it can be linked": Bug(
        "reclaim.catalog.collection.roots.observing",
        right="    return frozenset(connection.execute(closed).scalars()) - uploading\n",
        wrong="    return frozenset(connection.execute(closed).scalars())\n",
        test=f"{OF_CHECKPOINTS}::test_a_partition_with_an_upload_is_not_final",
    ),
    "a partition is final as soon as it is closed": Bug(
        "reclaim.catalog.collection.roots.observing",
        right="        partitions.c.closed_at < now - LONGEST_MARGIN // MICROSECOND,\n",
        wrong="",
        test=f"{OF_CHECKPOINTS}::test_a_partition_that_was_closed_just_now_is_not_final",
    ),
    "what was held or spared is not carried": Bug(
        SAVING,
        right="            [file.part for file in notes.carried],\n",
        wrong="            [],\n",
        test=f"{TEST}::test_what_was_staged_at_the_last_run_and_is_not_any_more[reset]",
    ),
    "a run that others came before leaves a checkpoint": Bug(
        CHECKPOINTS,
        right="    return newest_id(runs) == base and",
        wrong="    return True or",
        test=f"{OF_CHECKPOINTS}::test_another_run_in_between_leaves_the_checkpoint_alone",
    ),
    "a run of one branch leaves a checkpoint": Bug(
        PLANNING,
        right="        covers_store = self._options.branch is None and not self._store.deleted\n",
        wrong="        covers_store = True\n",
        test=f"{EXTENT}::test_a_branch_limits_the_listing_and_never_the_references",
    ),
    "the rule of 90 % counts what was looked at": Bug(
        "reclaim.run.plan.plan_document",
        right="            return going, max(going, self.uncommitted.objects_known)\n",
        wrong="            return going, max(going, self.objects - left)\n",
        test=f"{EXTENT}::test_what_is_known_counts_for_the_rule_of_90_percent",
    ),
    "protected globs protect nothing": Bug(
        "reclaim.engine.tasks.judging",
        right='        *((glob, f"protected by {name}") for glob, name in zip',
        wrong='        *((glob, f"protected by {name}") for glob, name in () and zip',
        test=f"{EXTENT}::test_open_partitions_and_protected_globs_are_counted",
    ),
    "what is protected after the plan is taken": Bug(
        "reclaim.run.apply.apply_plan",
        drops="CollectionApplying._condemn: check_protected",
        test=f"{EXTENT}::test_what_is_protected_after_the_plan_refuses_it",
    ),
    "dead containers that cannot be read list nothing": Bug(
        PLANNING,
        right="        if self._checkpoint is not None and self._dead.counts.unread:\n",
        wrong="        if False:\n",
        test=f"{OF_CHECKPOINTS}::TestInvalid::test_of_dead_commits_that_cannot_be_read",
    ),
    "a container that a checkpoint knows is counted twice": Bug(
        "reclaim.run.uncommitted.planning",
        right="pa.array(sorted(new_addresses - known_addresses), pa.string())",
        wrong="pa.array(sorted(new_addresses), pa.string())",
        test="tests/collect/uncommitted/test_uncommitted.py::test_a_commit_that_changes_nothing[embedded]",
    ),
    "a partition is final although it was listed long before": Bug(
        "reclaim.run.uncommitted.planning",
        right="        if seen.read_at - self.context.started_at > SLOWEST_LISTING:\n",
        wrong="        if False:\n",
        test="tests/collect/uncommitted/test_uncommitted.py::test_a_listing_that_took_a_day[embedded]",
    ),
    "the rule of 90 % counts what somebody has deleted since the checkpoint": Bug(
        PLANNING,
        right="                    counts[partition] = max(0, objects - gone), size\n",
        wrong="                    counts[partition] = objects, size\n",
        test=f"{EXTENT}::test_what_was_deleted_since_counts_no_more_for_the_rule_of_90_percent[None]",
    ),
    "the rule of 90 % counts what is not looked up for a branch": Bug(
        PLANNING,
        right="            known += notes.looked_up - sum(part.rows for part in looked_up_parts)\n",
        wrong="            del looked_up_parts\n",
        test=f"{EXTENT}::test_what_was_deleted_since_counts_no_more_for_the_rule_of_90_percent[work]",
    ),
    "rows that are lost on their way into the index are not missed": Bug(
        INDEXING,
        right='("rows", counted.rows, sum(part.rows for part in indexed.parts)),\n',
        wrong="",
        test=f"{OF_CHECKPOINTS}::test_a_row_that_is_lost_on_its_way_into_the_index_is_missed[written]",
    ),
    "entries that are lost as containers are decoded are not missed": Bug(
        INDEXING,
        right='("entries", counted.expected_entries, counted.entries),\n',
        wrong="",
        test=f"{OF_CHECKPOINTS}::test_a_row_that_is_lost_on_its_way_into_the_index_is_missed[decoded]",
        besides=(
            Change(
                INDEXING,
                '("entries", counts.entries, counted.known_entries + counted.entries),\n',
                "",
            ),
        ),
    ),
    "what another kind of run has read since the checkpoint is not looked at": Bug(
        PLANNING,
        right="            *manifest.parts_since(checkpoint.section),\n",
        wrong="",
        test=f"{ONE}::test_what_was_committed_and_read_by_rules_is_live",
    ),
    "a section goes on with an index that it has not seen": Bug(
        "reclaim.run.record.saving",
        right="    if notes.generation:\n",
        wrong="    if notes.base:\n",
        test=f"{ONE}::test_a_full_run_begins_a_new_index",
    ),
    "two plans from one checkpoint both leave one": Bug(
        CHECKPOINTS,
        right="    return newest_id(runs) == base and",
        wrong="    return True and",
        test=f"{ONE}::test_of_two_plans_from_one_checkpoint_the_first_leaves_one[lifecycle]",
    ),
    "a checkpoint counts after an undo of a run of rules": Bug(
        CHECKPOINTS,
        right="    if barriers - known.barriers:\n",
        wrong="    if False:\n",
        test=f"{ONE}::test_an_undo_of_either_kind_ends_the_checkpoint[after another run-lifecycle]",
    ),
    "the rule of 90 % counts what lifecycle rules took": Bug(
        PLANNING,
        right="        known -= min(taken, skipped)\n",
        wrong="        del taken, skipped\n",
        test=f"{ONE}::test_what_rules_took_counts_no_more_for_the_rule_of_90_percent",
    ),
    "the next checkpoint forgets what lifecycle rules took": Bug(
        PLANNING,
        right="        return section.taken + count_taken(by_rules, section)\n",
        wrong="        return count_taken(by_rules, section)\n",
        test=f"{ONE}::test_what_rules_took_counts_no_more_for_the_rule_of_90_percent",
    ),
    "a count that errs on the safe side refuses a run": Bug(
        PLANNING,
        right="is not None and going > self._allowed_fraction * known:\n",
        wrong="is not None and False:\n",
        test=f"{AGAIN}::test_objects_that_rules_took_refuse_no_later_run",
    ),
    "a full run insists on a damaged index": Bug(
        "reclaim.run.plan.plan_kind",
        right="        return earlier is None or (self.damaged and not earlier.damaged)\n",
        wrong="        return earlier is None\n",
        test=f"{AGAIN}::test_a_full_run_goes_without_a_damaged_index[parts-gone]",
    ),
    "rules are refused by an old count": Bug(
        "reclaim.run.lifecycle.planning",
        right="        if going > min(LARGE_FRACTION, self._allowed_fraction) * objects:\n",
        wrong="        if going > LARGE_FRACTION * objects:\n",
        test=f"{AGAIN}::test_rules_may_take_the_allowed_fraction_of_a_store_that_grew",
    ),
}
