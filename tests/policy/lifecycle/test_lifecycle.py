"""Lifecycle rules: as they are written, on a day, and what they say of one address."""

from __future__ import annotations

import json
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reclaim.errors import InvalidInput
from reclaim.policy.lifecycle import (
    Bounds,
    CurrentRule,
    DatedRule,
    LifecyclePolicy,
    LifecycleRule,
    Occurrence,
    current_rules,
    date_rules,
    judge,
    lifecycle_document,
    matched_rules,
    read_lifecycle,
)

pytestmark = pytest.mark.fast

RULES = """
{"rule1": {"prefix": "foo/bar", "days": 10, "enabled": true, "branch_days": {"b1": 5, "b2": 2}},
 "rule2": {"prefix": "foo/zoo", "enabled": true, "branch_days": {"b1": 5}}}
"""
TODAY = date(1998, 1, 20)
YESTERDAY = date(1998, 1, 19)


def january(day: int) -> date:
    return date(1998, 1, day)


def test_rules_on_a_day() -> None:
    assert date_rules(read_lifecycle(RULES), TODAY) == [
        DatedRule("rule1", "foo/bar", "", january(10)),
        DatedRule("rule1", "foo/bar", "b1", january(15)),
        DatedRule("rule1", "foo/bar", "b2", january(18)),
        DatedRule("rule2", "foo/zoo", "b1", january(15)),
    ]


def test_current_rules_after_a_run_with_one_rule() -> None:
    policy = read_lifecycle(RULES)
    before = date_rules(LifecyclePolicy(policy.rules[:1]), YESTERDAY)
    assert current_rules(date_rules(policy, TODAY), before) == [
        CurrentRule("foo/bar", "", january(10), january(9)),
        CurrentRule("foo/bar", "b1", january(15), january(14)),
        CurrentRule("foo/bar", "b2", january(18), january(17)),
        CurrentRule("foo/zoo", "b1", january(15), None),
    ]


BRANCHES = Bounds({"": january(9), "b1": date.min, "b2": january(17), "b3": january(5)})


@pytest.mark.parametrize(
    ("branches", "bound"),
    [
        ({"b1"}, date.min),
        ({"b3"}, january(5)),
        ({"b1", "b3"}, january(5)),
        ({"b1", "b2", "b3"}, january(9)),
        ({"another"}, january(9)),
        (set(), date.max),
    ],
)
def test_bounds_of_commits(branches: set[str], bound: date) -> None:
    assert BRANCHES.of_commit(branches) == bound
    assert BRANCHES.is_potential(january(6), branches) == (bound < january(6))


def test_the_bounds_of_the_table() -> None:
    policy = read_lifecycle(RULES)
    before = date_rules(LifecyclePolicy(policy.rules[:1]), YESTERDAY)
    bounds = Bounds.of(current_rules(date_rules(policy, TODAY), before))
    assert bounds == Bounds({"": january(9), "b1": date.min, "b2": january(17)})


def test_a_branch_without_any_rule_only_holds() -> None:
    bounds = Bounds.of([CurrentRule("a/", "b1", january(9), None)])
    assert not bounds.is_potential(january(31), {"b1", "b2"})
    assert bounds.is_potential(january(1), {"b1"})


DEDUPLICATED = [
    DatedRule("bar", "foo/bar", "", january(31)),
    DatedRule("tar", "foo/tar", "", january(31)),
]


@pytest.mark.parametrize(
    ("paths", "goes"),
    [
        (["foo/bar/b"], True),
        (["foo/bar/a", "foo/tar/a"], True),
        (["foo/tar/b", "foo/other/c"], False),
    ],
)
def test_an_address_under_several_paths(paths: list[str], goes: bool) -> None:
    main = frozenset({"main"})
    verdict = judge(DEDUPLICATED, [Occurrence(path, january(1), main) for path in paths])
    assert verdict.goes is goes
    assert verdict.held_by == (() if goes else ("foo/other/c on the branch main",))


def test_each_branch_must_agree() -> None:
    rules = [DatedRule("r", "", "b1", january(15)), DatedRule("r", "", "b2", january(5))]
    both = Occurrence("a", january(10), frozenset({"b1", "b2"}))
    assert judge(rules, [both]).held_by == ("a on the branch b2",)
    assert judge(rules, [Occurrence("a", january(10), frozenset({"b1"}))]).goes


@pytest.mark.parametrize("holder", ["tag v1", "lease of a reader", "staged on main"])
def test_a_holder_holds_whatever_its_age(holder: str) -> None:
    rules = [DatedRule("r", "", "", january(31))]
    found = [
        Occurrence("a", january(1), frozenset({"b"})),
        Occurrence("a", january(1), frozenset(), (holder,)),
    ]
    assert judge(rules, found).held_by == (holder,)


def test_of_several_dates_the_latest_counts() -> None:
    rules = [DatedRule("r", "", "", january(10))]
    old, new = (Occurrence("a", january(day), frozenset({"b"})) for day in (1, 11))
    assert judge(rules, [old]).goes
    assert not judge(rules, [old, new]).goes


def test_what_nothing_refers_to_is_not_of_the_rules() -> None:
    assert not judge([DatedRule("r", "", "", january(31))], []).goes


def test_days_of_a_branch_replace_those_of_every_branch() -> None:
    rules = date_rules(read_lifecycle('{"r": {"prefix": "", "days": 1, "branch_days": {"b": 9}}}'),
                       TODAY)  # fmt: skip
    assert matched_rules(rules, "a", january(15), "main") == {"r"}
    assert matched_rules(rules, "a", january(15), "b") == set()


def test_nested_prefixes_and_rules_for_the_same_prefix_add_up() -> None:
    policy = LifecyclePolicy(
        (
            LifecycleRule("all", "", 10),
            LifecycleRule("logs", "logs/", 2),
            LifecycleRule("again", "logs/", None, {"main": 5}),
            LifecycleRule("off", "", 1, enabled=False),
        )
    )
    rules = date_rules(policy, TODAY)
    assert matched_rules(rules, "logs/a", january(18), "main") == {"logs"}
    assert matched_rules(rules, "logs/a", january(15), "main") == {"logs", "again"}
    assert matched_rules(rules, "logs/a", january(10), "main") == {"all", "logs", "again"}
    assert matched_rules(rules, "data/a", january(19), "main") == set()
    assert matched_rules(rules, "logs", january(10), "main") == {"all"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "must be a mapping of rule ids to rules"),
        ("{}", "must be a mapping of rule ids to rules"),
        ('{"r": {"days": 1}}', "r: prefix: is missing"),
        ('{"r": {"prefix": "a"}}', "r: needs days or branch_days"),
        ('{"r": {"prefix": "a", "days": 0}}', "r: days: must be a whole number of at least 1"),
        ('{"r": {"prefix": "a", "days": "3"}}', "r: days: must be a whole number of at least 1"),
        ('{"r": {"prefix": "a", "days": true}}', "r: days: must be a whole number of at least 1"),
        ('{"r": {"prefix": "a", "days": 99999}}', "r: days: "),
        ('{"r": {"prefix": 3, "days": 1}}', "r: prefix: "),
        (r'{"r": {"prefix": "\ud800", "days": 1}}', "r: prefix: contains a lone surrogate"),
        ('{"r": {"prefix": "a", "days": 1, "day": 2}}', "r: day: there is no such field"),
        ('{"r": {"prefix": "a", "branch_days": {"b": -1}}}', "r: branch_days: b: must be"),
        ('{"r": {"prefix": "a", "branch_days": {"": 1}}}', "r: branch_days: "),
        ('{"r": {"prefix": "a", "days": 1, "enabled": "no"}}', "r: enabled: "),
        ('{"r": {"prefix": "a", "days": 1}, "r": {}}', "duplicate key r"),
        ('{"": {"prefix": "a", "days": 1}}', "the id of a rule must be a text"),
        ("1: {prefix: a, days: 1}", "the id of a rule must be a text, not 1"),
        ("r: [{prefix: a}]", "r: a rule has fields such as prefix and days, not [{'prefix': 'a'}]"),
        ("{", "not valid JSON"),
        ("r: [", "not valid YAML"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=r"^rules\.json") as error:
        read_lifecycle(text, source="rules.json")
    assert problem in error.value.message


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(InvalidInput) as error:
        read_lifecycle('{"a": {"days": 1}, "b": {"prefix": "", "days": 0}}')
    assert len(error.value.details["problems"]) == 2


NAMES = st.text(min_size=1, max_size=5)
DAYS = st.integers(1, 36_500)
POLICIES = st.dictionaries(
    NAMES,
    st.tuples(st.text(max_size=5), DAYS, st.dictionaries(NAMES, DAYS, max_size=2), st.booleans()),
    min_size=1,
    max_size=3,
).map(
    lambda found: LifecyclePolicy(
        tuple(LifecycleRule(name, *fields) for name, fields in found.items())
    )
)


@given(POLICIES)
def test_what_is_written_is_read(policy: LifecyclePolicy) -> None:
    assert read_lifecycle(json.dumps(lifecycle_document(policy))) == policy


def test_yaml_reads_the_same() -> None:
    text = "r:\n  prefix: foo/\n  branch_days:\n    main: 3\n"
    assert read_lifecycle(text).rules == (LifecycleRule("r", "foo/", None, {"main": 3}),)
