"""Anchors of planted bugs: each is found once, or the bug is stale."""

from __future__ import annotations

import pytest

from tests.planted.bug import Change, without_call

SOURCE = """class Plan:
    def check(self):
        self.check_clock(
            1,
        )
        return check_once(check_once())

    def twice(self):
        check_budget()
        check_budget()
"""


def test_a_call_is_left_out_whatever_its_arguments_are() -> None:
    planted = without_call(SOURCE, "Plan.check: check_clock")
    assert "check_clock" not in planted
    assert planted.splitlines()[2:6] == ["        pass", "", "", SOURCE.splitlines()[5]]


@pytest.mark.parametrize(
    "anchor", ["Plan.check: check_budget", "Plan.twice: check_budget", "Plan.check: check_once"]
)
def test_a_call_that_is_not_there_once_is_refused(anchor: str) -> None:
    with pytest.raises(AssertionError, match="times"):
        without_call(SOURCE, anchor)


def test_a_text_that_is_not_there_once_is_refused() -> None:
    for text in ("check_budget()", "check_nothing()"):
        with pytest.raises(AssertionError, match="has"):
            Change("plan", text, "").plant(SOURCE)
