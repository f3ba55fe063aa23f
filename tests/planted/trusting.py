"""Bugs in what is believed of a plan, and of an inventory."""

from __future__ import annotations

from tests.planted.bug import Bug

TRUST = "tests/collect/apply/test_trust.py"
INVENTORY = "tests/collect/plan/test_inventory.py"
LISTED = "tests/collect/plan/test_listed.py"

BUGS: dict[str, Bug] = {
    "a plan that nobody vouches for is believed": Bug(
        "reclaim.run.apply.trust",
        right="return digest is not None or recorded is not None",
        wrong="return True",
        test=f"{TRUST}::test_live_objects_in_every_file_of_a_plan_without_a_record[embedded]",
    ),
    "another plan than the one that was recorded": Bug(
        "reclaim.run.apply.trust",
        right="if recorded is not None and recorded != planned.digest:",
        wrong="if False:",
        test=f"{TRUST}::test_live_objects_in_every_file_of_a_recorded_plan[embedded]",
    ),
    "another digest than the one that was given": Bug(
        "reclaim.run.apply.trust",
        right="if digest is not None and not planned.digest.startswith(check_digest(digest)):",
        wrong="if digest is not None and not check_digest(digest):",
        test=f"{TRUST}::test_another_digest_is_refused[recorded]",
    ),
    "the margin of a plan that nobody vouches for": Bug(
        "reclaim.run.apply.trust",
        right="min(max(default_margin, planned.started_at - planned.cutoff), LONGEST_MARGIN)",
        wrong="planned.started_at - planned.cutoff",
        test=f"{TRUST}::test_times_and_places_of_a_plan_without_a_record_are_not_believed",
    ),
    "the history of a plan that nobody vouches for": Bug(
        "reclaim.run.apply.trust",
        drops="find_basis: _check_history",
        test=f"{TRUST}::test_a_tag_is_not_deleted_by_a_forged_plan",
    ),
    "a plan is read twice": Bug(
        "reclaim.run.apply.apply_plan",
        right="planned = planned or plan_file.read(storage, place)",
        wrong="planned = plan_file.read(storage, place)",
        test=f"{TRUST}::test_gc_goes_by_what_it_planned",
    ),
    "rows are not counted against the summary": Bug(
        "reclaim.run.plan.checks",
        right="        counted != summarized\n        or (objects, size)",
        wrong="        False and (objects, size)",
        test=f"{TRUST}::test_a_summary_that_says_less_than_the_files[less of candidates]",
    ),
    "what is held is read from any file": Bug(
        "reclaim.storage.hashed_files",
        right="    if not stem.endswith(",
        wrong="    if not stem and not stem.endswith(",
        test=f"{TRUST}::test_held_addresses_that_somebody_changes",
    ),
    "an inventory of another bucket": Bug(
        "reclaim.run.plan.checks",
        right="    if 2 * candidates.sampled >= needed:\n",
        wrong="    if True:\n",
        test=f"{INVENTORY}::test_one_of_something_else[garbage]",
    ),
    "a listing of another place": Bug(
        "reclaim.run.plan.planning",
        drops="Planning._plan: check_listed",
        test=f"{LISTED}::test_an_empty_listing[1-gc]",
    ),
    "what lifecycle rules took has to be listed": Bug(
        "reclaim.run.plan.checks",
        right="store.find_expired(missing_names) if isinstance(store, TakesReferenced) else ()\n",
        wrong="[]\n",
        test=f"{LISTED}::test_what_lifecycle_rules_took_is_not_missing",
    ),
    "what is born while it is listed has to be listed": Bug(
        "reclaim.run.plan.checks",
        right="    needed = len(names) - young.num_rows - len(expired)\n",
        wrong="    needed = len(names) - len(expired)\n",
        test=f"{LISTED}::test_what_is_written_while_it_is_listed_need_not_be_listed",
    ),
    "an empty inventory": Bug(
        "reclaim.run.plan.checks",
        right="    if not candidates.objects and _has_older(store, objects.before):\n",
        wrong="    if False:\n",
        test=f"{INVENTORY}::test_an_empty_one_of_a_store_in_which_nothing_is_live",
    ),
    "keys beside each other may be the same": Bug(
        "reclaim.engine.tasks.inventory",
        right="    ascending = pc.less(",
        wrong="    ascending = pc.less_equal(",
        test=f"{INVENTORY}::test_a_key_that_is_listed_twice_refuses_it[sorted]",
    ),
    "a number is taken for a time": Bug(
        "reclaim.engine.tasks.inventory",
        right="    if not (pa.types.is_timestamp(column.type) or _is_text(column.type)):\n",
        wrong="    if False:\n",
        test=f"{INVENTORY}::test_what_cannot_be_read[a number]",
    ),
}
