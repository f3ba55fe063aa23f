"""Expire: plan an edit of a repository's history from a policy, show it, apply it.

The plan is made from one snapshot and is pure from there on. Applying it conflicts with whatever
changed the same commits since; new commits and refs do not disturb it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reclaim.catalog import HistoryEdit, HistoryRead, Repository
from reclaim.catalog.collection.taking_back import EXPIRE
from reclaim.history import Edit
from reclaim.history.graph import reachable
from reclaim.model import Decision, Run, SnapshotId
from reclaim.policy import Decisions, Policy, require_rules
from reclaim.run.decide import check_counts, decide


@dataclass(frozen=True, slots=True)
class ExpirePlan:
    """What an expiration would do, with a decision for every snapshot."""

    read: HistoryRead
    decisions: Decisions
    edit: Edit

    def reached(self) -> Iterator[Decision]:
        """The decisions for snapshots that some ref reaches before the edit, newest first."""
        dead = self._unreached()
        return (decision for decision in self.decisions if decision.id not in dead)

    def released(self) -> tuple[SnapshotId, ...]:
        """The snapshots that no ref reaches any more because of the edit."""
        dead = self._unreached()
        return tuple(found for found in self.edit.unreachable if found not in dead)

    def _unreached(self) -> frozenset[SnapshotId]:
        history = self.decisions.history
        reached = reachable(history.parents, history.tips)
        return frozenset(
            snapshot.id
            for snapshot, there in zip(history.snapshots, reached, strict=True)
            if not there
        )


def plan_expire(
    repository: Repository,
    policy: Policy,
    *,
    refs: Sequence[str] = (),
    delete_expired_tags: bool = False,
    delete_expired_branches: bool = False,
) -> ExpirePlan:
    """Decide what of a repository's history expires. Changes nothing."""
    require_rules(policy)
    read = repository.read_history()
    check_counts((read.expected[0], len(read.snapshots)))
    decided = decide(
        policy,
        snapshots=read.snapshots,
        refs=read.refs,
        busy=read.busy,
        now=read.read_at,
        limit=refs,
        delete_expired_tags=delete_expired_tags,
        delete_expired_branches=delete_expired_branches,
    )
    return ExpirePlan(read, decided.decisions, decided.edit)


def apply_expire(repository: Repository, plan: ExpirePlan) -> Run | None:
    """Apply a plan; None when there was nothing to do."""
    # Commits that a run has marked cannot be edited; one that died has no more use for its marks.
    repository.release_left_over()
    if plan.edit.empty:
        return None
    planned = {snapshot.id: snapshot.parents for snapshot in plan.read.snapshots}
    edit = HistoryEdit(
        {found: (planned[found], new) for found, new in plan.edit.reparent.items()},
        plan.edit.delete_refs,
    )
    summary = {
        "reparented": len(plan.edit.reparent),
        "released": len(plan.released()),
        "deleted_refs": [ref.name for ref in plan.edit.delete_refs],
    }
    return repository.edit_history(edit, kind=EXPIRE, summary=summary)
