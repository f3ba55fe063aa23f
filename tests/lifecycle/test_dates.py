"""Dates of entries: of one path with several the latest counts, and what changes later is seen."""

from __future__ import annotations

from datetime import date

import pyarrow as pa

from reclaim.engine.tasks.lifecycle import NOBODY, ROWS, ReachNames, day_number, decide
from reclaim.engine.tasks.rule_changes import find_windows
from reclaim.policy.lifecycle import DatedRule
from reclaim.policy.lifecycle.classes import HOLDER, OTHERS, BranchClasses

LIMIT = date(2026, 1, 10)
RULES = [DatedRule("r", "a/", "", LIMIT), DatedRule("r", "a/", "late", date(2026, 1, 20))]
CLASSES = BranchClasses.of(RULES)
LATE = CLASSES.bit("late")
NAMES = ReachNames(("the tag v1",), ("main",))


def rows(*values: tuple[str, str, int, int]) -> pa.Table:
    """Rows of an address, a path, a day of January and a bitmap."""
    columns = (
        [address for address, *_ in values],
        [path for _, path, *_ in values],
        [day_number(date(2026, 1, day)) for *_, day, _ in values],
        [bits for *_, bits in values],
        [0 if bits & HOLDER else NOBODY for *_, bits in values],
        [0 if bits & OTHERS else NOBODY for *_, bits in values],
    )
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ROWS, strict=True)]
    return pa.table(arrays, schema=ROWS)


def going(*values: tuple[str, str, int, int]) -> set[str]:
    return set(decide(CLASSES, NAMES, rows(*values)).going.column("address").to_pylist())


def held(*values: tuple[str, str, int, int]) -> dict[str, list[str]]:
    found = decide(CLASSES, NAMES, rows(*values)).held.to_pylist()
    return {row["address"]: row["held_by"] for row in found}


def test_on_the_day_itself_it_goes_and_a_day_later_it_does_not() -> None:
    assert going(("x", "a/1", 10, OTHERS), ("y", "a/1", 11, OTHERS)) == {"x"}


def test_the_latest_date_of_a_path_counts_on_every_branch() -> None:
    # Each by itself would match on its own branch.
    pair = ("x", "a/1", 5, OTHERS), ("x", "a/1", 15, LATE)
    assert not going(*pair)
    # It is looked at again: the later one may be gone by then.
    assert held(*pair) == {"x": ["a/1 on the branch main"]}
    assert going(("x", "a/1", 5, OTHERS), ("x", "a/2", 15, LATE)) == {"x"}
    assert list(held(("x", "a/1", 5, OTHERS), ("x", "a/1", 25, LATE))) == ["x"]


def test_addresses_with_the_same_key_are_told_apart() -> None:
    # Capital letters make no difference to keys.
    pair = ("x", "a/1", 1, OTHERS), ("X", "b/1", 1, OTHERS), ("x", "a/2", 1, OTHERS)
    assert going(*pair) == {"x"}
    assert not held(*pair)


def test_what_holds_is_told_in_the_order_of_paths_and_once() -> None:
    values = [("x", f"b/{n}", 1, OTHERS | HOLDER) for n in (9, 3, 1, 2, 8, 7, 6)]
    told = held(("x", "a/1", 1, LATE | OTHERS), *values)
    assert told == {
        "x": [
            "the tag v1",
            "b/1 on the branch main",
            "b/2 on the branch main",
            "b/3 on the branch main",
            "b/6 on the branch main",
        ]
    }


def test_a_holder_is_matched_by_no_rule() -> None:
    assert not going(("x", "a/1", 1, OTHERS | HOLDER))
    assert held(("x", "a/1", 1, OTHERS | HOLDER)) == {"x": ["the tag v1"]}


def test_what_only_a_tag_reaches_is_not_matched_and_not_carried() -> None:
    assert not held(("x", "a/1", 1, HOLDER))


def test_days_that_a_later_run_has_to_look_at() -> None:
    def by(prefix: str, day: int, late: int = 20) -> BranchClasses:
        days = (("", day), ("late", late))
        return BranchClasses.of(
            DatedRule("r", prefix, branch, date(2026, 1, day)) for branch, day in days
        )

    def number(day: int) -> int:
        return day_number(date(2026, 1, day))

    assert find_windows(by("a/", 12), by("a/", 10)) == [(number(11), number(12))]
    assert find_windows(by("a/", 10, 22), by("a/", 10)) == [(number(21), number(22))]
    assert find_windows(by("a/", 8), by("a/", 10)) == []
    # A shorter prefix covers what is below it, and a longer one does not.
    assert find_windows(by("a/b/", 12), by("a/", 10)) == [(number(11), number(12))]
    beginning = day_number(date.min)
    assert find_windows(by("a/", 10), by("a/b/", 10)) == [
        (beginning, number(10)),
        (beginning, number(20)),
    ]
