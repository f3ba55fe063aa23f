"""Bugs of what lifecycle rules decide: what holds an address, and what a later run looks at."""

from __future__ import annotations

from tests.planted.bug import Bug

DECIDING = "reclaim.engine.tasks.lifecycle"
INDEX = "reclaim.engine.tasks.index"
CHANGES = "reclaim.engine.tasks.rule_changes"
RANGES = "reclaim.engine.tasks.lifecycle_ranges"
REACH = "reclaim.run.lifecycle.reach"
PLANNING = "reclaim.run.lifecycle.planning"
DATES = "tests/lifecycle/test_dates.py"
NAMED = "tests/lifecycle/test_named_cases.py"
DECISIONS = "tests/lifecycle/test_decisions.py"
APPLYING = "tests/lifecycle/test_applying.py"
NETS = "tests/lifecycle/test_nets.py"
ONE = "tests/lifecycle/test_one_checkpoint.py"

BUGS: dict[str, Bug] = {
    "a path is judged by its earliest date": Bug(
        DECIDING,
        right='            "day": np.maximum.reduceat(days[order], pairs),\n',
        wrong='            "day": np.minimum.reduceat(days[order], pairs),\n',
        test=f"{DATES}::test_the_latest_date_of_a_path_counts_on_every_branch",
    ),
    "what was matched by an earlier date is not looked at again": Bug(
        DECIDING,
        right="    holds = (judged.has_match | judged.was_matched) & ~goes\n",
        wrong="    holds = judged.has_match & ~goes\n",
        test=f"{DATES}::test_the_latest_date_of_a_path_counts_on_every_branch",
    ),
    "one matched path is enough": Bug(
        DECIDING,
        right="    goes = judged.has_match & ~judged.has_unmatched\n",
        wrong="    goes = judged.has_match\n",
        test=f"{DECISIONS}::test_a_copy_elsewhere_holds_an_address",
    ),
    "a tag does not hold what a rule matches": Bug(
        REACH,
        right="        tips.append((tip, HOLDER))\n",
        wrong="        tips.append((tip, OTHERS))\n",
        test=f"{DECISIONS}::test_a_tag_holds_what_it_reaches",
    ),
    "only rows of new ranges hold in a later run": Bug(
        INDEX,
        right="    wanted = sorted(partitions)\n",
        wrong="    wanted: list[str] = []\n",
        test="tests/lifecycle/test_later.py::test_an_old_copy_holds_what_a_new_range_has",
    ),
    "a branch that reaches more than before is not looked at": Bug(
        CHANGES,
        right="    if (is_known & (gained != 0)).any():\n        return parts\n",
        wrong="",
        test="tests/lifecycle/test_later.py::test_what_a_new_branch_matches_is_carried",
    ),
    "the dates of the last run are taken for those of now": Bug(
        CHANGES,
        right="            first = day_number(max(known)) + 1 if known else day_number(NEVER)\n",
        wrong="            first = day_number(latest) if known else day_number(NEVER)\n",
        test=f"{DATES}::test_days_that_a_later_run_has_to_look_at",
    ),
    "what is held is forgotten": Bug(
        "reclaim.run.lifecycle.saving",
        right="                [file.part for file in (*notes.held, *planned.files)],\n",
        wrong="                [file.part for file in planned.files],\n",
        test=f"{NAMED}::test_a_branch_with_a_longer_rule_created_at_an_old_commit",
    ),
    "a commit that died is taken to have its ranges still": Bug(
        PLANNING,
        right="            reach.bits.get(snapshot) == bits for",
        wrong="            reach.bits.get(snapshot, bits) == bits for",
        test="tests/lifecycle/test_later.py::test_a_branch_that_is_gone_holds_nothing",
    ),
    "only new commits are judged again": Bug(
        "reclaim.run.lifecycle.rejudging",
        right="bits & ~planned_bits.get(snapshot, 0) for snapshot, bits in reach.bits.items()",
        wrong="bits for snapshot, bits in reach.bits.items() if snapshot not in planned_bits",
        test=f"{APPLYING}::test_nothing_goes_that_something_came_to_hold[a tag-after the plan]",
    ),
    "ranges of the plan are not judged again": Bug(
        RANGES,
        right='    bits = numpy_of(ranges.column("bits"), np.int64) & ~before.bits[at]\n',
        wrong='    bits = numpy_of(ranges.column("bits"), np.int64) * (before.bits[at] == 0)\n',
        test=f"{APPLYING}::test_nothing_goes_that_something_came_to_hold[a tag-after the plan]",
    ),
    "an undo does not end a checkpoint": Bug(
        "reclaim.run.record.checkpoints",
        right="    if barriers - known.barriers:\n",
        wrong="    if False:\n",
        test="tests/lifecycle/test_later.py::test_an_undo_of_another_run_ends_a_checkpoint",
    ),
    "ranges that could not be read are not missed": Bug(
        "reclaim.run.plan.indexing",
        right="        if expected != read:\n",
        wrong="        if expected < read:\n",
        test="tests/lifecycle/test_later.py::test_a_range_that_was_not_read_stops_the_run",
    ),
    "one path of several tells what is protected": Bug(
        "reclaim.engine.tasks.lifecycle_plan",
        right="    kept = by_paths if shielded is None "
        "else pc.min_element_wise(by_paths, shielded)\n",
        wrong="    kept = shielded\n",
        test=f"{NETS}::test_a_protected_path_holds_whatever_its_other_paths_are",
    ),
    "a protected path that came since the plan holds nothing": Bug(
        DECIDING,
        right="    for glob in protect:\n",
        wrong="    for glob in ():\n",
        test=f"{NETS}::test_a_protected_path_that_came_since_the_plan_holds",
    ),
    "one path of several tells what is excluded": Bug(
        "reclaim.run.plan.plan_document",
        right="        return [] if self.lifecycle is None else "
        "[file.part for file in self.lifecycle.rows]\n",
        wrong="        return []\n",
        test=f"{NETS}::test_what_is_excluded_by_any_of_its_paths_stays",
    ),
    "a later run counts what it does not know": Bug(
        PLANNING,
        right="        if going > min(LARGE_FRACTION, self._allowed_fraction) * objects:\n",
        wrong="        if False:\n",
        test=f"{NETS}::test_a_later_run_that_would_take_nearly_all_lists_all",
    ),
    "a plan may be of a time to come": Bug(
        "reclaim.run.apply.preconditions",
        right="    if ahead > SAFETY.clock_skew:\n",
        wrong="    if False:\n",
        test=f"{NETS}::test_a_plan_by_a_clock_that_runs_ahead_is_refused[rules]",
    ),
    "an old plan forgets what an undo brought back": Bug(
        "reclaim.run.lifecycle.forgetting",
        right="    if not find_barriers(runs) <= frozenset(section.barriers):\n",
        wrong="    if False:\n",
        test=f"{NETS}::test_what_an_undo_brought_back_since_the_plan_is_not_forgotten",
    ),
    "entries that another kind of run has read since are not judged": Bug(
        "reclaim.engine.lifecycle",
        right="        return [part for part in self.index if part.address not in judged]\n",
        wrong="        return []\n",
        test=f"{ONE}::test_what_was_committed_and_read_as_live_is_judged",
    ),
    "a range that was dead at the last run is not read again": Bug(
        "reclaim.run.plan.indexing",
        right="    ranges = start.checkpoint.manifest.ranges_since(section)\n",
        wrong="    ranges = start.checkpoint.manifest.ranges_since(None)\n",
        test=f"{ONE}::test_a_range_that_was_dead_at_the_last_run_is_read_again",
    ),
}
