# ruff: noqa: E501
"""Golden tables: every snapshot of a hand-made history with what is decided and why."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reclaim.model import History
from reclaim.policy import evaluate, parse_policy
from tests.history.trees import branch, tag, tree

pytestmark = pytest.mark.fast

# One snapshot a day from Thursday 2026-01-01 on; `now` is the day after the last.
LINE = "a:\n b:a\n c:b\n d:c\n e:d\n f:e\n g:f\n h:g\n i:h\n j:i"
MERGES = """
    a:
    b: a
    f1: b
    c: b
    f2: f1
    p:
    m: c f2
    q: p
    n: m q
    f3: f2
"""

CASES: dict[str, tuple[History, object, str]] = {
    "age, equal stays": (
        tree(LINE, branch("main", "j")),
        {"default": {"older_than": "4d"}},
        """
        j  keep branch main: older_than 4d, written at or after 2026-01-07T00:00:00Z
        i  keep branch main: older_than 4d, written at or after 2026-01-07T00:00:00Z
        h  keep branch main: older_than 4d, written at or after 2026-01-07T00:00:00Z
        g  keep branch main: older_than 4d, written at or after 2026-01-07T00:00:00Z
        f  -    branch main: not kept by older_than 4d; written before 2026-01-07T00:00:00Z
        e  -    branch main: not kept by older_than 4d; written before 2026-01-07T00:00:00Z
        d  -    branch main: not kept by older_than 4d; written before 2026-01-07T00:00:00Z
        c  -    branch main: not kept by older_than 4d; written before 2026-01-07T00:00:00Z
        b  -    branch main: not kept by older_than 4d; written before 2026-01-07T00:00:00Z
        a  keep root commit (always kept)
        """,
    ),
    "counts on a line": (
        tree(LINE, branch("main", "j")),
        {"default": {"keep_last": 2, "keep_daily": 3, "keep_weekly": 2, "keep_yearly": 5}},
        """
        j  keep branch main: keep_last 2 (1st of 2)
        j  keep branch main: keep_daily 3 (newest of 2026-01-10)
        j  keep branch main: keep_weekly 2 (newest of 2026-W02)
        j  keep branch main: keep_yearly 5 (newest of 2026)
        i  keep branch main: keep_last 2 (2nd of 2)
        i  keep branch main: keep_daily 3 (newest of 2026-01-09)
        h  keep branch main: keep_daily 3 (newest of 2026-01-08)
        g  -    branch main: not kept by keep_last 2, keep_daily 3, keep_weekly 2, keep_yearly 5
        f  -    branch main: not kept by keep_last 2, keep_daily 3, keep_weekly 2, keep_yearly 5
        e  -    branch main: not kept by keep_last 2, keep_daily 3, keep_weekly 2, keep_yearly 5
        d  keep branch main: keep_weekly 2 (newest of 2026-W01)
        c  -    branch main: not kept by keep_last 2, keep_daily 3, keep_weekly 2, keep_yearly 5
        b  -    branch main: not kept by keep_last 2, keep_daily 3, keep_weekly 2, keep_yearly 5
        a  keep root commit (always kept)
        """,
    ),
    "counts go along first parents, ages to all": (
        tree(MERGES, branch("main", "n"), branch("feature", "f3")),
        {
            "default": {"keep_last": 3},
            "rules": [{"match": "feature", "older_than": "7d", "keep_last": 1}],
        },
        """
        f3 keep branch feature: older_than 7d, written at or after 2026-01-04T00:00:00Z
        f3 keep branch feature: keep_last 1 (1st of 1)
        n  keep branch main: keep_last 3 (1st of 3)
        q  -    not among the last 3 on branch main
        m  keep branch main: keep_last 3 (2nd of 3)
        p  keep root commit (always kept)
        f2 keep branch feature: older_than 7d, written at or after 2026-01-04T00:00:00Z
        c  keep branch main: keep_last 3 (3rd of 3)
        f1 -    not among the last 3 on branch main
        f1 -    branch feature: not kept by older_than 7d, keep_last 1; written before 2026-01-04T00:00:00Z
        b  -    not among the last 3 on branch main
        b  -    branch feature: not kept by older_than 7d, keep_last 1; written before 2026-01-04T00:00:00Z
        a  keep root commit (always kept)
        """,
    ),
    "several origins, within, a branch without rules": (
        tree(MERGES, branch("main", "n"), branch("old", "c"), branch("free/x", "q")),
        {"default": {"keep_within": "2d"}, "rules": [{"match": "free/*"}]},
        """
        f3 -    no ref reaches it
        n  keep branch main: keep_within 2d of the tip
        q  keep branch main: keep_within 2d of the tip
        q  keep branch free/x: no rule, so everything it reaches stays
        m  keep branch main: keep_within 2d of the tip
        p  keep branch free/x: no rule, so everything it reaches stays
        p  keep root commit (always kept)
        f2 -    branch main: not kept by keep_within 2d
        c  keep branch old: keep_within 2d of the tip
        f1 -    branch main: not kept by keep_within 2d
        b  keep branch old: keep_within 2d of the tip
        a  keep root commit (always kept)
        """,
    ),
    "refs at one tip, tags by glob, a tag on an expired snapshot": (
        tree(
            LINE,
            branch("main", "j"),
            branch("dev", "j"),
            tag("v1", "c"),
            tag("v2", "e"),
            tag("nightly", "g"),
        ),
        {
            "default": {"older_than": "2026-01-09"},
            "rules": [
                {"match": "v2", "kind": "tag", "keep_last": 1},
                {"match": "main", "kind": "tag", "keep_last": 9},
                {"match": "dev", "kind": "branch", "keep_last": 2},
            ],
        },
        """
        j  keep branch main: older_than 2026-01-09T00:00:00Z, written at or after 2026-01-09T00:00:00Z
        j  keep branch dev: keep_last 2 (1st of 2)
        i  keep branch main: older_than 2026-01-09T00:00:00Z, written at or after 2026-01-09T00:00:00Z
        i  keep branch dev: keep_last 2 (2nd of 2)
        h  -    branch main: not kept by older_than 2026-01-09T00:00:00Z; written before 2026-01-09T00:00:00Z
        h  -    not among the last 2 on branch dev
        g  -    branch main, tag nightly: not kept by older_than 2026-01-09T00:00:00Z; written before 2026-01-09T00:00:00Z
        g  -    not among the last 2 on branch dev
        f  -    branch main, tag nightly: not kept by older_than 2026-01-09T00:00:00Z; written before 2026-01-09T00:00:00Z
        f  -    not among the last 2 on branch dev
        e  keep tag v2: keep_last 1 (1st of 1)
        d  -    branch main, tag nightly: not kept by older_than 2026-01-09T00:00:00Z; written before 2026-01-09T00:00:00Z
        d  -    not among the last 2 on branch dev
        d  -    not among the last 1 on tag v2
        c  -    branch main, tag nightly, tag v1: not kept by older_than 2026-01-09T00:00:00Z; written before 2026-01-09T00:00:00Z
        c  -    not among the last 2 on branch dev
        c  -    not among the last 1 on tag v2
        b  -    branch main, tag nightly, tag v1: not kept by older_than 2026-01-09T00:00:00Z; written before 2026-01-09T00:00:00Z
        b  -    not among the last 2 on branch dev
        b  -    not among the last 1 on tag v2
        a  keep root commit (always kept)
        """,
    ),
    "refs of one class on one chain count each for itself": (
        tree(LINE, branch("main", "j"), branch("old", "i"), branch("older", "g")),
        {"default": {"keep_last": 2}},
        """
        j  keep branch main: keep_last 2 (1st of 2)
        i  keep branch main, branch old: keep_last 2 (2nd, 1st of 2)
        h  keep branch old: keep_last 2 (2nd of 2)
        g  keep branch older: keep_last 2 (1st of 2)
        f  keep branch older: keep_last 2 (2nd of 2)
        e  -    not among the last 2 on branch main, branch old, branch older
        d  -    not among the last 2 on branch main, branch old, branch older
        c  -    not among the last 2 on branch main, branch old, branch older
        b  -    not among the last 2 on branch main, branch old, branch older
        a  keep root commit (always kept)
        """,
    ),
    "what no ref reaches": (
        tree("a:\n b: a\n z:\n y: z", branch("main", "b")),
        {"default": {"keep_last": 1}},
        """
        y  -    no ref reaches it
        z  -    no ref reaches it
        b  keep branch main: keep_last 1 (1st of 1)
        a  keep root commit (always kept)
        """,
    ),
    "many refs are counted": (
        tree("a:\n b: a\n c: b", *(branch(f"b{number}", "c") for number in range(5))),
        {"default": {"keep_last": 1}},
        """
        c  keep branch b0, branch b1, branch b2 and others: keep_last 1 (1st of 1)
        b  -    not among the last 1 on branch b0, branch b1, branch b2 and others
        a  keep root commit (always kept)
        """,
    ),
}


def table(history: History, policy: object) -> str:
    now = history.snapshots[0].written_at + timedelta(days=1)
    decisions = evaluate(parse_policy(policy), history, now=now)
    rows = []
    for decision in decisions:
        mark = "keep" if decision.kept else "-   "
        for reason in decision.reasons:
            rows.append(f"{decision.id:2} {mark} {reason}")
    return "\n".join(rows)


@pytest.mark.parametrize("name", CASES)
def test_decisions(name: str) -> None:
    history, policy, expected = CASES[name]
    assert table(history, policy) == expected.strip().replace("\n        ", "\n")
