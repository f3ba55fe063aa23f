"""The count of expired snapshots and their holders, against a count ref by ref."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reclaim.history import count_expired, expire, held_by_undo
from reclaim.history.expired import UNDO
from reclaim.history.graph import reachable
from reclaim.model import UNDO_HOLDER, History, Lease, SnapshotId
from reclaim.policy import Policy, evaluate
from tests.history.graphs import histories
from tests.policy.test_properties import NOW, policies

pytestmark = pytest.mark.fast


def reached(history: History, *tips: int) -> set[SnapshotId]:
    there = reachable(history.parents, tips)
    return {one.id for one, is_there in zip(history.snapshots, there, strict=True) if is_there}


@given(histories(), policies(), st.booleans(), st.data())
def test_each_counts_once_for_the_undo_or_the_newest_ref(
    history: History, policy: Policy, delete: bool, data: st.DataObject
) -> None:
    held = (
        data.draw(st.lists(st.sampled_from(history.snapshots), max_size=2))
        if (history.snapshots)
        else []
    )
    leases = [
        Lease(f"{at}", one.id, f"{UNDO_HOLDER}{at}", NOW, timedelta(days=at + 1))
        for at, one in enumerate(held)
    ]
    decisions = evaluate(policy, history, now=NOW)
    by_undo = held_by_undo(history, leases)
    edit = expire(
        history,
        decisions.kept | by_undo,
        delete_expired_tags=delete,
        delete_expired_branches=delete,
    )
    counted = count_expired(history, decisions.kept, edit, leases)

    expired = reached(history, *history.tips) - decisions.kept
    left = expired - set(edit.unreachable)
    assert counted.snapshots == len(expired)
    assert counted.held == len(left | (expired & by_undo))
    of_undos = [holder for holder in counted.held_by if holder.kind == UNDO]
    assert sum(holder.snapshots for holder in of_undos) == len(expired & by_undo)
    by_ref = {ref.name for ref in history.refs} - {ref.name for ref in edit.delete_refs}
    assert {holder.name for holder in counted.held_by if holder.kind != UNDO} <= by_ref
    sizes = [holder.snapshots for holder in counted.held_by]
    assert sizes == sorted(sizes, reverse=True)
    assert all(sizes)
    within = reached(history, *history.tips[:1])
    assert count_expired(history, decisions.kept, edit, leases, within).snapshots == len(
        expired & within
    )
