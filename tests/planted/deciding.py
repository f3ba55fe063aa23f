"""Bugs of what is decided and of what is believed: rules, their reasons, and bytes."""

from __future__ import annotations

from tests.planted.bug import Bug

RULES = "tests/policy/test_properties.py::test_it_is_what_the_rules_say"
REASONS = "tests/policy/test_properties.py::test_each_reason_names_the_refs_it_is_for"

BUGS: dict[str, Bug] = {
    "the refs whose rule ends first go on": Bug(
        "reclaim.policy.claims",
        right="tuple(sorted({*some, *others})[:WIDTH])",
        wrong="tuple(sorted({*some, *others})[-1:])",
        test=RULES,
    ),
    "a rule that ended is handed on": Bug(
        "reclaim.policy.claims",
        right="if held and ends[held[-1]] >= level:",
        wrong="if False:",
        test=REASONS,
    ),
    "bytes are read and not compared": Bug(
        "reclaim.catalog.content.checksums",
        right="total.hexdigest() != checksum",
        wrong="not checksum",
        test="tests/cli/test_objects.py::test_get_compares_bytes_when_asked",
    ),
}
