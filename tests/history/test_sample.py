"""The sample tree: six refs, expired one by one in every order."""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations

import pytest

from reclaim.history import Edit, expire
from reclaim.model import History, Ref, SnapshotId
from reclaim.policy import evaluate, from_options
from tests.history.trees import START, applied, branch, line, tag, tree

pytestmark = pytest.mark.fast

REFS = (
    branch("main", "14"),
    branch("develop", "11"),
    branch("test", "9"),
    branch("qa", "8"),
    tag("tag1", "3"),
    tag("tag2", "5"),
)
SAMPLE = tree(
    """
    0:
    1: 0
    2: 1
    3: 2
    4: 2
    5: 4
    6: 3
    7: 6
    8: 7
    9: 7
    10: 6
    11: 10
    12: 5
    13: 12
    14: 13
    """,
    *REFS,
)
BEFORE = {
    "main": "14,13,12,5,4,2,1,0",
    "develop": "11,10,6,3,2,1,0",
    "test": "9,7,6,3,2,1,0",
    "qa": "8,7,6,3,2,1,0",
    "tag1": "3,2,1,0",
    "tag2": "5,4,2,1,0",
}
AFTER = {
    "main": "14,13,12,0",
    "develop": "11,10,0",
    "test": "9,0",
    "qa": "8,0",
    "tag1": "3,2,1,0",
    "tag2": "5,4,2,1,0",
}
# What each ref's own run edits; runs for tags find nothing to do.
STEPS = {
    "main": {"12": ("0",)},
    "develop": {"10": ("0",)},
    "test": {"9": ("0",)},
    "qa": {"8": ("0",)},
    "tag1": {},
    "tag2": {},
}
CUTOFF = START + timedelta(days=8)  # snapshot 8 was written at the cutoff, and stays


def run(history: History, limit: tuple[Ref, ...] | None = None, *, tags: bool = False) -> Edit:
    policy = from_options(older_than=CUTOFF.isoformat())
    decisions = evaluate(policy, history, now=START + timedelta(days=99))
    return expire(history, decisions.kept, limit=limit, delete_expired_tags=tags)


def lines(history: History) -> dict[str, str]:
    return {ref.name: line(history, ref.name) for ref in REFS}


def test_the_tree_is_the_one_of_the_document() -> None:
    assert lines(SAMPLE) == BEFORE


def test_each_step_edits_one_snapshot() -> None:
    history, seen = SAMPLE, []
    for ref in REFS:
        edit = run(history, (ref,))
        assert edit.reparent == STEPS[ref.name], ref.name
        history = applied(history, edit)
        seen.append({name: now for name, now in lines(history).items() if now != BEFORE[name]})
        assert set(seen[-1]) == {one for one in STEPS if STEPS[one]} & {
            done.name for done in REFS[: len(seen)]
        }
    assert lines(history) == AFTER


@pytest.mark.parametrize("first", REFS, ids=lambda ref: ref.name)
def test_every_order_ends_the_same(first: Ref) -> None:
    orders = [order for order in permutations(REFS) if order[0] == first]
    assert len(orders) == 120
    for order in orders:
        history = SAMPLE
        for ref in order:
            history = applied(history, run(history, (ref,)))
        assert lines(history) == AFTER, order
        last = run(history)
        assert last.empty
        assert last.unreachable == ("7", "6")


def test_all_at_once_is_the_same() -> None:
    edit = run(SAMPLE)
    assert lines(applied(SAMPLE, edit)) == AFTER
    assert edit.unreachable == ("7", "6")
    assert [ref.name for ref in edit.expired_tips] == ["tag1", "tag2"]
    assert edit.marked == {"12", "10", "9", "8"}
    assert edit.delete_refs == ()


def test_without_the_expired_tags_their_snapshots_are_free_too() -> None:
    edit = run(SAMPLE, tags=True)
    assert [ref.name for ref in edit.delete_refs] == ["tag1", "tag2"]
    assert edit.unreachable == ("7", "6", "5", "4", "3", "2", "1")


def test_a_limit_holds_for_deleting_refs_too() -> None:
    edit = run(SAMPLE, (REFS[0], REFS[5]), tags=True)
    assert [ref.name for ref in edit.delete_refs] == ["tag2"]
    assert edit.reparent == {"12": ("0",)}
    assert edit.unreachable == ("5", "4")


def test_what_is_kept_does_not_depend_on_the_limit() -> None:
    policy = from_options(older_than=CUTOFF.isoformat())
    kept = evaluate(policy, SAMPLE, now=CUTOFF).kept
    assert kept == {SnapshotId(str(one)) for one in (0, 8, 9, 10, 11, 12, 13, 14)}
