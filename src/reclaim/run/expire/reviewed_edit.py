"""A reviewed history edit, made on the current history.

Between a plan and its apply the history may change: refs are created and moved, and another run may
be undone. So the rules are evaluated again, at the time of the plan. Snapshots that expire by both
decisions are removed from history; no snapshot becomes unreachable unless planned, and no ref is
deleted unless planned at its current snapshot (decision 0032).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime

from reclaim.errors import OutOfTime
from reclaim.history import Edit, build, expire, held_by_undo
from reclaim.history.graph import reachable
from reclaim.model import History, Ref, SnapshotId
from reclaim.policy import Policy, evaluate
from reclaim.run.plan.decide import find_named
from reclaim.stores.abilities import HistorySeen

ROUNDS = 20
"""Attempts at an edit before writers are asked to pause."""


@dataclass(frozen=True, slots=True)
class CurrentEdit:
    """Edit as decided again, with the snapshots it makes unreachable."""

    edit: Edit
    released: AbstractSet[SnapshotId]


@dataclass(frozen=True, slots=True)
class ReviewedEdit:
    """Edit as decided by the plan."""

    policy: Policy
    now: datetime
    """Time of the plan, the reference for ages."""
    expired: AbstractSet[SnapshotId]
    """Snapshots not kept by the policy."""
    released: AbstractSet[SnapshotId]
    """Expired snapshots without a ref after the planned edit."""
    delete_refs: Collection[Ref]
    limit: Mapping[str, SnapshotId] = field(default_factory=dict)
    """Refs selected by the plan, with their planned snapshots; empty for all refs."""

    def decide(self, seen: HistorySeen) -> CurrentEdit:
        """Decide the edit for a current history."""
        history = build(seen.snapshots, seen.refs)
        decisions = evaluate(self.policy, history, now=self.now)
        going = self.expired - decisions.kept - held_by_undo(history, seen.returned)
        if self.limit:
            # A ref merged or reset since the plan reaches snapshots outside the plan.
            going &= _reached(history, self._planned_tips(history))
        reached = _reached(history, history.tips)
        while True:
            edit = expire(
                history,
                history.numbers.keys() - going,
                limit=find_named(seen.refs, list(self.limit)) if self.limit else None,
                delete_expired_tags=True,
                delete_expired_branches=True,
                deletable=self.delete_refs,
                busy=seen.busy,
                keep_bases_of=decisions.keep_bases_of,
            )
            released = reached.intersection(edit.unreachable)
            lost = going & (released - self.released)
            if not lost:
                return CurrentEdit(edit, released)
            going -= lost

    def _planned_tips(self, history: History) -> Sequence[int]:
        tips = self.limit.values()
        return [history.numbers[tip] for tip in tips if tip in history.numbers]


def make_edit(
    reviewed: ReviewedEdit,
    read: Callable[[], HistorySeen],
    make: Callable[[CurrentEdit, HistorySeen], bool],
) -> CurrentEdit:
    """Decide and edit until the history does not change in between; return the edit made.

    ``make`` returns False without an edit if the history has changed since it was read.
    """
    for _ in range(ROUNDS):
        seen = read()
        again = reviewed.decide(seen)
        if again.edit.empty or make(again, seen):
            return again
    raise OutOfTime(
        "the history changed faster than the policy could be applied to it",
        hint="nothing was deleted; run it again when fewer branches and tags are being made",
    )


def _reached(history: History, tips: Sequence[int]) -> frozenset[SnapshotId]:
    reached = reachable(history.parents, tips)
    return frozenset(
        snapshot.id for snapshot, hit in zip(history.snapshots, reached, strict=True) if hit
    )
