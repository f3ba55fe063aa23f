"""Bugs of what is decided and of what is believed: rules, their reasons, and bytes."""

from __future__ import annotations

from tests.planted.bug import Bug

RULES = "tests/policy/test_properties.py::test_it_is_what_the_rules_say"
BACKWARDS = "tests/policy/test_backwards.py"
REASONS = "tests/policy/test_properties.py::test_each_reason_names_the_refs_it_is_for"

BUGS: dict[str, Bug] = {
    "the refs whose rule ends first go on": Bug(
        "reclaim.policy.claims",
        right="tuple(sorted({*first, *second})[:WIDTH])",
        wrong="tuple(sorted({*first, *second})[-1:])",
        test=RULES,
    ),
    "a rule that ended is handed on": Bug(
        "reclaim.policy.claims",
        right="if own_ranks and ends[own_ranks[-1]] >= level:",
        wrong="if False:",
        test=REASONS,
    ),
    "a history is walked in the order of its clocks": Bug(
        "reclaim.history.graph",
        right="for parent in edges if parent <= number]:",
        wrong="for parent in edges if False]:",
        test=f"{BACKWARDS}::test_children_come_before_their_parents",
    ),
    "what is young is told by its place in the history": Bug(
        "reclaim.policy.evaluate",
        right="    if history.monotone:",
        wrong="    if True:",
        test=f"{BACKWARDS}::test_rules_look_behind_a_clock_that_was_slow[rules0-kept0]",
    ),
    "a rule ends at the first old snapshot": Bug(
        "reclaim.policy.claims",
        right="history.ages if ends is None else _youngest_below(history)",
        wrong="history.ages",
        test=f"{BACKWARDS}::test_rules_look_behind_a_clock_that_was_slow[rules1-kept1]",
    ),
    "bytes are read and not compared": Bug(
        "reclaim.catalog.content.checksums",
        right="total.hexdigest() != checksum",
        wrong="not checksum",
        test="tests/cli/test_objects.py::test_get_compares_bytes_when_asked",
    ),
}
