"""Bugs of the pipelines, which both engines share: oracles that know no engine find them."""

from __future__ import annotations

from tests.planted.bug import Bug

COMMITS = "tests/collect/quarantine/test_promised_commits.py"
EXCLUDE = "tests/collect/apply/test_exclude.py"
RACES = "tests/collect/apply/test_races.py"
LIVE_KEYS = "reclaim.engine.pipelines.live_keys"
FINDING = "reclaim.engine.pipelines.finding"
SURVIVORS = "reclaim.engine.pipelines.survivors"
EXPANDING = "reclaim.engine.pipelines.expanding"
COMPLETENESS = "reclaim.engine.pipelines.completeness"
SWEEPING = "reclaim.engine.pipelines.sweeping"
LISTS = "reclaim.engine.pipelines.candidate_lists"

BUGS: dict[str, Bug] = {
    "held addresses have no keys": Bug(
        LIVE_KEYS,
        right="    if held or done:\n",
        wrong="    if done:\n",
        test=f"{COMMITS}::test_what_was_in_an_open_partition_is_not_taken",
    ),
    "only the first of two sources has keys": Bug(
        LIVE_KEYS,
        right="    rows = first.union(others[0]) if others else first\n",
        wrong="    rows = first\n",
        test=f"{COMMITS}::test_what_was_too_young_to_be_set_aside_is_not_taken[deletes]",
    ),
    "a container is dead if one snapshot that lists it is": Bug(
        EXPANDING,
        right='group("address", order=("cause",))',
        wrong='group("address", order=("kind",), greatest=("cause",))',
        test=f"{EXCLUDE}::test_the_same_glob_leaves_out_the_same_every_night",
    ),
    "a confirm compares with nothing": Bug(
        SURVIVORS,
        right='keyed.join(key_rows(engine, live, url), "key", "left_anti").select',
        wrong="keyed.select",
        test=f"{RACES}::test_a_race_inside_apply[a branch-before it begins]",
    ),
    "a find compares with nothing": Bug(
        SURVIVORS,
        right="    left = without_keys(engine, files.map(source.read, LISTED), LISTED, live, "
        "place.url)\n",
        wrong="    left = files.map(source.read, LISTED)\n",
        test=f"{RACES}::test_a_race_inside_apply[new commits-before the first look]",
    ),
    "an intersection is all that was planned": Bug(
        LISTS,
        right='.join(listed, "address", "left_semi")',
        wrong="",
        test="tests/collect/apply/test_trust.py"
        "::test_live_objects_in_every_file_of_a_plan_without_a_record[embedded]",
    ),
    "what an earlier apply left out is forgotten": Bug(
        LISTS,
        right="    if request.earlier:\n",
        wrong="    if False:\n",
        test=f"{EXCLUDE}::test_the_same_glob_leaves_out_the_same_every_night",
    ),
    "what could not be brought back counts as there": Bug(
        COMPLETENESS,
        right="    if request.not_restored:\n",
        wrong="    if False:\n",
        test="tests/collect/quarantine/test_promises.py"
        "::test_a_foreign_object_at_a_home_stops_nothing_else[embedded-other]",
    ),
    "what rules took is missing": Bug(
        COMPLETENESS,
        right="    if request.expired:\n",
        wrong="    if False:\n",
        test="tests/lifecycle/test_applying.py"
        "::test_a_later_collection_and_its_undo_do_not_miss_what_expired",
    ),
    "a note alone takes objects": Bug(
        SWEEPING,
        right='    listed = each.where("listed", True).select(*GOING.names)\n',
        wrong="    listed = each.select(*GOING.names)\n",
        test="tests/collect/apply/test_lists.py::test_a_forged_note_adds_no_object",
    ),
    "a sweep takes again what was done before": Bug(
        SWEEPING,
        right="    if request.done:\n",
        wrong="    if False:\n",
        test="tests/lifecycle/test_settling.py"
        "::test_what_an_undo_brought_back_is_of_use_whatever_it_could_not",
    ),
}
