"""An edit of the history that somebody has seen, made on the history as it stands by then.

Between a plan and its apply the history may have changed: refs are made and moved, and what another
run had taken out comes back. So the rules are asked again, at the plan's own time. What expires by
both decisions is taken out of the history; nothing gets out of reach that the plan left in reach,
and no ref goes that the plan did not delete where it is (decision 0032).
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
"""How often an edit is decided on before the writers are asked to pause."""


@dataclass(frozen=True, slots=True)
class EditAgain:
    """An edit as it was decided on again, and what gets out of reach by it."""

    edit: Edit
    released: AbstractSet[SnapshotId]


@dataclass(frozen=True, slots=True)
class ReviewedEdit:
    """An edit as it was decided when it was planned."""

    policy: Policy
    now: datetime
    """When it was planned: ages are counted from then."""
    expired: AbstractSet[SnapshotId]
    """The snapshots that the policy did not keep."""
    released: AbstractSet[SnapshotId]
    """Those of them that no ref reached any more."""
    delete_refs: Collection[Ref]
    limit: Mapping[str, SnapshotId] = field(default_factory=dict)
    """The refs that the edit is narrowed to, with the snapshots that they pointed to; all refs if
    there are none."""

    def decide(self, seen: HistorySeen) -> EditAgain:
        """The edit as it is right for a history."""
        history = build(seen.snapshots, seen.refs)
        decisions = evaluate(self.policy, history, now=self.now)
        going = self.expired - decisions.kept - held_by_undo(history, seen.returned)
        if self.limit:
            # A ref that was merged or reset since reaches snapshots that the plan did not mean.
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
                return EditAgain(edit, released)
            going -= lost

    def _planned_tips(self, history: History) -> Sequence[int]:
        tips = self.limit.values()
        return [history.numbers[tip] for tip in tips if tip in history.numbers]


def make_edit(
    reviewed: ReviewedEdit,
    read: Callable[[], HistorySeen],
    make: Callable[[EditAgain, HistorySeen], bool],
) -> EditAgain:
    """Decide and edit until the history did not change in between; returns what was edited.

    ``make`` does nothing and says so if the history is not the one that was read any more.
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
    there = reachable(history.parents, tips)
    return frozenset(
        snapshot.id for snapshot, reached in zip(history.snapshots, there, strict=True) if reached
    )
