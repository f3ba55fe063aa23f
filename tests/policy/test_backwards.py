"""Clocks that run backwards: rules look at times, and nothing that is walked goes by them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reclaim.history import build, expire
from reclaim.history.graph import reachable
from reclaim.policy import Duration, Policy, Rules, evaluate
from tests.history.trees import START, branch, snapshot

pytestmark = pytest.mark.fast

NOW = START + timedelta(days=20)
LINE = build(
    # Written on another machine, whose clock was nine days behind.
    [
        snapshot("origin", "", 1),
        snapshot("young", "origin", 18),
        snapshot("behind", "young", 9),
        snapshot("same", "behind", 9),
        snapshot("tip", "same", 17),
    ],
    [branch("main", "tip")],
)


def test_children_come_before_their_parents() -> None:
    assert [one.id for one in LINE.snapshots] == ["tip", "same", "behind", "young", "origin"]
    assert [LINE.snapshots[number].id for number in LINE.by_time] == [
        *("young", "tip", "behind", "same", "origin")
    ]
    assert [LINE.ages[number] for number in LINE.by_time] == list(range(5))
    assert not LINE.monotone
    assert reachable(LINE.parents, LINE.tips) == bytearray(b"\1" * 5)


@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        (Rules(older_than=Duration.parse("5d")), {"tip", "young"}),
        (Rules(keep_within=Duration.parse("3d")), {"tip", "young"}),
        (Rules(keep_last=2), {"tip", "same"}),
        (Rules(keep_daily=2), {"tip", "same"}),
        (Rules(keep_daily=3), {"tip", "same", "young"}),
    ],
)
def test_rules_look_behind_a_clock_that_was_slow(rules: Rules, kept: set[str]) -> None:
    decisions = evaluate(Policy(rules), LINE, now=NOW)
    assert decisions.kept == kept | {"origin"}
    for decision in decisions:
        assert decision.kept == bool(decisions.reasons.keeping(*_place(decision.id))[0])
    edit = expire(LINE, decisions.kept)
    assert edit.unreachable == tuple(
        one.id for one in LINE.snapshots if one.id not in decisions.kept
    )


def _place(id: str) -> tuple[int, int]:
    number = next(at for at, one in enumerate(LINE.snapshots) if one.id == id)
    return number, number + 1
