"""Expire: plan an edit of a repository's history from a policy, show it, apply it.

The plan is made from one snapshot and is pure from there on. Applying it conflicts with whatever
changed the same commits since; new commits and refs do not disturb it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reclaim.catalog import HistoryEdit, HistoryRead, Repository, Run
from reclaim.errors import NotFound
from reclaim.history import Edit, build, expire
from reclaim.history.graph import reachable
from reclaim.model import Decision, Ref, SnapshotId
from reclaim.policy import Decisions, Policy, evaluate, require_rules

KIND = "expire"


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
    history = build(read.snapshots, read.refs)
    decisions = evaluate(policy, history, now=read.read_at)
    edit = expire(
        history,
        decisions.kept,
        limit=_named(read.refs, refs) if refs else None,
        delete_expired_tags=delete_expired_tags,
        delete_expired_branches=delete_expired_branches,
        busy=read.busy,
        keep_bases_of=decisions.keep_bases_of,
    )
    return ExpirePlan(read, decisions.with_bases(edit.kept_bases), edit)


def apply_expire(repository: Repository, plan: ExpirePlan) -> Run | None:
    """Apply a plan; None when there was nothing to do."""
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
    return repository.edit_history(edit, kind=KIND, summary=summary)


def _named(found: Sequence[Ref], names: Sequence[str]) -> list[Ref]:
    known = {ref.name: ref for ref in found}
    for name in names:
        if name not in known:
            raise NotFound(f"there is no branch or tag {name!r}")
    return [known[name] for name in names]
