"""Bugs in what a person leaves out of an apply, and in limits."""

from __future__ import annotations

from tests.planted.bug import Bug

EXCLUDE = "tests/collect/apply/test_exclude.py"
TERMINUS = "tests/terminus/test_exclude.py"

BUGS: dict[str, Bug] = {
    "what is left out goes": Bug(
        "reclaim.run.apply.apply_plan",
        right="        basis = replace(basis, candidates=exclusion.included)\n",
        wrong="",
        test=f"{EXCLUDE}::test_it_stays_and_is_named[data-deleted]",
    ),
    "what is left out by its address goes": Bug(
        "reclaim.engine.tasks.excluding",
        right='for name in ("address", "path", KNOWN_PATH)',
        wrong='for name in ("path", KNOWN_PATH)',
        test=f"{EXCLUDE}::test_it_stays_and_is_named[range-moved]",
    ),
    "a glob that matches nothing": Bug(
        "reclaim.run.apply.exclusion",
        right="    if idle:",
        wrong="    if False:",
        test=f"{EXCLUDE}::test_a_glob_that_matches_nothing_is_refused",
    ),
    "what was taken before is called left out": Bug(
        "reclaim.run.apply.exclusion_list",
        right="    if done:\n",
        wrong="    if False:\n",
        test=f"{EXCLUDE}::test_the_same_plan_takes_it_without_the_exclusion[deleted]",
    ),
    "layers that are left out lose what they need": Bug(
        "reclaim.run.roots.promises",
        right="    taking = list(request.left_out)\n",
        wrong="    taking: list[str] = []\n",
        test=f"{TERMINUS}::test_what_it_needs_stays[parent-deleted]",
    ),
    "an apply that is not finished takes what it left out": Bug(
        "reclaim.run.apply.preconditions",
        right="    left_out = run.left_out.globs\n",
        wrong="    left_out: tuple[str, ...] = ()\n",
        test=f"{EXCLUDE}::test_an_apply_that_is_not_finished_leaves_out_the_same[deleted]",
    ),
    "the hint of an apply forgets what is left out": Bug(
        "reclaim.run.apply.context",
        right="exclude_options(self.globs)",
        wrong="exclude_options(())",
        test=f"{EXCLUDE}::test_an_apply_that_is_not_finished_leaves_out_the_same[deleted]",
    ),
    "what was left out by its path goes the next night": Bug(
        "reclaim.run.apply.exclusion",
        right="    earlier = [*paths, *_find_earlier(store, own, opener)]\n",
        wrong="    earlier = [*paths]\n",
        test=f"{EXCLUDE}::test_the_same_glob_leaves_out_the_same_every_night",
    ),
    "a plan beyond the limits": Bug(
        "reclaim.run.apply.limits",
        right="if limit is not None and count > limit:",
        wrong="if False:",
        test=f"{EXCLUDE}::test_a_plan_beyond_the_limits_changes_nothing[objects]",
    ),
}
