"""Durations and policies out of text, and what is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reclaim.errors import InvalidInput
from reclaim.model import Ref, RefKind, SnapshotId
from reclaim.policy import (
    Duration,
    Match,
    Policy,
    Rules,
    from_options,
    parse_policy,
    policy_document,
    read_policy,
    require_rules,
)
from reclaim.policy.rules import PERIODS

pytestmark = pytest.mark.fast

UNITS = ("y", "mo", "w", "d", "h", "min", "s")
NOW = datetime(2026, 3, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "before"),
    [
        ("30d", "2026-03-01T12:00:00"),
        ("12h", "2026-03-31T00:00:00"),
        ("2w", "2026-03-17T12:00:00"),
        ("1mo", "2026-02-28T12:00:00"),
        ("1y", "2025-03-31T12:00:00"),
        ("1y6mo", "2024-09-30T12:00:00"),
        ("25mo", "2024-02-29T12:00:00"),
        ("1y5mo7d2h", "2024-10-24T10:00:00"),
        ("15min", "2026-03-31T11:45:00"),
        ("1mo15min", "2026-02-28T11:45:00"),
        ("90s", "2026-03-31T11:58:30"),
        ("9999y", "0001-01-01T00:00:00"),
        ("999999w", "0001-01-01T00:00:00"),
    ],
)
def test_durations(text: str, before: str) -> None:
    expected = datetime.fromisoformat(before).replace(tzinfo=UTC)
    assert Duration.parse(text).before(NOW) == expected
    assert str(Duration.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "d", "30", "-1d", "1.5d", "1 d", " 1d", "1d\n", "1D", "1x", "1d1y", "1d2d"),
        *("1234567d", "P30D", "0d", "0y0mo", "1mins", "\u0663d"),
    ],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(InvalidInput, match="duration"):
        Duration.parse(text)


@pytest.mark.parametrize("text", ["1m", "5m", "0m", "1y6m", "6m2d", "1m15min", "1m15m"])
def test_a_bare_m_is_refused_with_both_spellings(text: str) -> None:
    with pytest.raises(InvalidInput, match="months or minutes") as refused:
        Duration.parse(text)
    count = text.split("m")[0].split("y")[-1]
    assert refused.value.hint == f"write {count}mo for months or {count}min for minutes"


def test_a_duration_counts_in_utc() -> None:
    east = datetime.fromisoformat("2026-03-01T01:00:00+02:00")  # still February in UTC
    assert Duration.parse("1mo").before(east) == datetime(2026, 1, 28, 23, tzinfo=UTC)


FILE = """
default:
  older_than: 30d
  keep_last: 10
rules:
  - match: "release/*"
    kind: branch
    keep_daily: 7
    keep_within: 6mo
    keep_merge_bases: true
  - match: "v*"
    kind: tag
  - match: "x?"
    older_than: 2026-01-31T12:00:00+01:00
"""
JSON = """{
\t"default": {"older_than": "30d", "keep_last": 10},
\t"rules": [
\t\t{"match": "release/*", "kind": "branch",
\t\t "keep_daily": 7, "keep_within": "6mo", "keep_merge_bases": true},
\t\t{"match": "v*", "kind": "tag"},
\t\t{"match": "x?", "kind": "any", "older_than": "2026-01-31T11:00:00Z"}
\t]
}"""
PARSED = Policy(
    Rules(older_than=Duration(0, timedelta(days=30), "30d"), keep_last=10),
    (
        (
            Match("release/*", RefKind.BRANCH),
            Rules(keep_daily=7, keep_within=Duration(6, timedelta(), "6mo"), keep_merge_bases=True),
        ),
        (Match("v*", RefKind.TAG), Rules()),
        (Match("x?"), Rules(older_than=datetime(2026, 1, 31, 11, tzinfo=UTC))),
    ),
)


@pytest.mark.parametrize("text", [FILE, JSON], ids=["yaml", "json"])
def test_a_file(text: str) -> None:
    assert read_policy(text) == PARSED


@pytest.mark.parametrize(
    ("kind", "name", "entry"),
    [
        ("branch", "release/1", 0),
        ("branch", "release/1/hotfix", 0),
        ("tag", "release/1", None),
        ("branch", "Release/1", None),
        ("branch", "release", None),
        ("tag", "v1", 1),
        ("branch", "v1", None),
        ("branch", "x1", 2),
        ("tag", "x1", 2),
        ("tag", "x12", None),
    ],
)
def test_the_first_match_decides(kind: str, name: str, entry: int | None) -> None:
    rules = PARSED.rules(Ref(name, RefKind(kind), SnapshotId("s")))
    assert rules is (PARSED.default if entry is None else PARSED.matches[entry][1])


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("older_than: 2026-01-31", "2026-01-31T00:00:00+00:00"),
        ("older_than: '2026-01-31'", "2026-01-31T00:00:00+00:00"),
        ("older_than: 2026-01-31T12:30:00", "2026-01-31T12:30:00+00:00"),
        ("older_than: 2026-01-31 12:30:00", "2026-01-31T12:30:00+00:00"),
        ("older_than: '2026-01-31T12:30:00-08:00'", "2026-01-31T20:30:00+00:00"),
    ],
)
def test_instants(text: str, instant: str) -> None:
    found = read_policy(f"default: {{{text}}}").default.older_than
    assert isinstance(found, datetime)
    assert found.isoformat() == instant


# file | what the error says
ERRORS = """
default: {keep_daly: 3}                   | the policy: default: keep_daly: there is no such field
defaults: {keep_daily: 3}                 | the policy: defaults: there is no such field
default: {keep_daily: 0}                  | default: keep_daily: must be a whole number of at least 1, not 0
default: {keep_daily: -1}                 | default: keep_daily: must be a whole number of at least 1, not -1
default: {keep_daily: 1.0}                | default: keep_daily: must be a whole number of at least 1, not 1.0
default: {keep_daily: "3"}                | default: keep_daily: must be a whole number of at least 1, not '3'
default: {keep_daily: true}               | default: keep_daily: must be a whole number of at least 1, not True
default: {keep_merge_bases: 1}            | default: keep_merge_bases: input should be a valid boolean, not 1
default: {older_than: 30}                 | default: older_than: must be a duration such as 30d or an instant
default: {older_than: soon}               | default: older_than: 'soon' is not a duration
default: {older_than: 0d}                 | default: older_than: the duration '0d' is zero
default: {older_than: "2026-13-01"}       | default: older_than: '2026-13-01' is not an instant
default: {older_than: "0001-01-01T00:00+14:00"} | default: older_than: datetime.datetime(1
default: {keep_within: 2026-01-01}        | default: keep_within: must be a duration such as 30d
default: {keep_within: [1d]}              | default: keep_within: must be a duration such as 30d
default: 3                                | default: input should be a valid dictionary
rules: {match: a}                         | rules: input should be a valid list
rules: [{keep_last: 1}]                   | rules[0]: match: is missing
rules: [{match: ""}]                      | rules[0]: match: string should have at least 1 character
rules: [{match: 3}]                       | rules[0]: match: input should be a valid string, not 3
rules: [3]                                | rules[0]: input should be a valid dictionary
rules: [{match: a}, {match: "f/*", keep_last: x}] | rules[1] (f/*): keep_last: must be a whole number
rules: [{match: a, kind: label}]          | rules[0] (a): kind: input should be 'branch', 'tag' or 'any'
rules: [{match: a, default: {}}]          | rules[0] (a): default: there is no such field
{"default": {"keep_last": 0}}             | default: keep_last: must be a whole number of at least 1
{"rules": [], "rules": []}                | the policy: duplicate key rules
default: {keep_last: 1, keep_last: 2}     | the policy:1:25: duplicate key keep_last
default: {                                | the policy:1:43: not valid YAML: expected
{                                         | the policy:1:43: not valid JSON: expecting
just words                                | must have a default, rules or both, not 'just words'
"""  # noqa: E501


@pytest.mark.parametrize("row", ERRORS.strip().splitlines())
def test_errors_name_the_rule_and_the_field(row: str) -> None:
    text, _, expected = row.partition("|")
    with pytest.raises(InvalidInput) as caught:
        read_policy(text)
    assert expected.strip() in caught.value.message


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        read_policy("default: {keep_last: 0}\nrules: [{match: a, nope: 1}]", source="p.yaml")
    assert caught.value.message.startswith("p.yaml: ")
    assert [problem.partition(": ")[0] for problem in caught.value.details["problems"]] == [
        "default",
        "rules[0] (a)",
    ]


def test_options() -> None:
    policy = from_options(older_than="30d", keep_last=3, keep_daily=None, keep_merge_bases=True)
    assert policy.default == Rules(Duration.parse("30d"), keep_last=3, keep_merge_bases=True)
    with pytest.raises(InvalidInput, match=r"^--keep-last: must be a whole number"):
        from_options(keep_last=0)
    with pytest.raises(InvalidInput, match=r"^--older-than: 'x' is not a duration"):
        from_options(older_than="x")


@pytest.mark.parametrize(
    "text",
    ["", "default: {}", "rules: []", "rules: [{match: a}]", "default: {keep_merge_bases: true}"],
)
def test_a_policy_without_a_rule_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="the policy has no rule"):
        require_rules(read_policy(text))


@pytest.mark.parametrize("data", [{"default": {"keep_last": 1}}, {"default": {"older_than": "1d"}},
    {"default": {"keep_within": "1d"}}, {"rules": [{"match": "a", "keep_yearly": 1}]}])  # fmt: skip
def test_one_rule_is_enough(data: object) -> None:
    policy = parse_policy(data)
    assert require_rules(policy) is policy


def test_of_two_matches_the_first_holds_alone() -> None:
    policy = read_policy("rules: [{match: 'a*', keep_last: 1}, {match: 'a/*', keep_daily: 2}]")
    assert policy.rules(Ref("a/b", RefKind.BRANCH, SnapshotId("s"))) == Rules(keep_last=1)


BOMB = "a: &a [x, x]\n" + "\n".join(
    f"b{n}: &b{n} [*{'a' if not n else f'b{n - 1}'}]" for n in range(9)
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (BOMB, "aliases"),
        ("default: &rules {keep_last: 1}\nrules: [{match: a, <<: *rules}]", "aliases"),
        ("default: &loop [*loop]", "aliases"),
        ("default: " + "[" * 50 + "]" * 50, "nested more than 20"),
        ("[" * 100_000, "nested more than 20"),
        ('{"default": ' + "[" * 100_000, "nested too deeply"),
        ("# " + "x" * 1_000_000, "longer than 1,000,000"),
        ('default: "' + "x" * 100_000 + '"', "…$"),
    ],
)
def test_a_text_that_would_take_more_than_it_is_worth(text: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as caught:
        read_policy(text)
    assert len(caught.value.message) < 1000


def _rules() -> st.SearchStrategy[Rules]:
    durations = st.builds(
        lambda amounts: Duration.parse(
            "".join(f"{amount}{unit}" for amount, unit in zip(amounts, UNITS, strict=True))
        ),
        st.tuples(*(st.integers(1, 999) for _ in UNITS)),
    ) | st.sampled_from(["30d", "1y6mo", "12h", "001w"]).map(Duration.parse)
    instants = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-3))]))
    count = st.none() | st.integers(1, 10**12)
    counts = {f"keep_{name}": count for name in ("last", *PERIODS)}
    return st.builds(
        Rules,
        older_than=st.none() | durations | instants,
        keep_within=st.none() | durations,
        keep_merge_bases=st.booleans(),
        **counts,
    )


@given(
    st.builds(
        Policy,
        _rules(),
        st.lists(
            st.tuples(
                st.builds(
                    Match,
                    st.text(min_size=1, max_size=8),
                    st.sampled_from([None, RefKind.BRANCH, RefKind.TAG]),
                ),
                _rules(),
            ),
            max_size=3,
        ).map(tuple),
    )
)
def test_a_policy_that_is_written_down_is_read_back_as_it_was(policy: Policy) -> None:
    document = json.loads(json.dumps(policy_document(policy)))
    assert parse_policy(document) == policy
    assert read_policy(json.dumps(document)) == policy


def test_a_duration_that_cannot_be_written_down_is_refused() -> None:
    with pytest.raises(InvalidInput):
        policy_document(Policy(Rules(keep_within=Duration(exact=timedelta(microseconds=1)))))
