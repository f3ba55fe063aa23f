"""Expire: plan an edit of a repository's history from a policy, show it, apply it.

The plan is made from one snapshot and is pure from there on. When the history has changed by the
time it is applied, it is decided again, and what expires by both decisions is taken out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reclaim.catalog import HistoryEdit, HistoryRead, Repository
from reclaim.catalog.collection.editors import EXPIRE
from reclaim.history import Edit
from reclaim.history.graph import reachable
from reclaim.lock import edit_in_progress
from reclaim.model import Decision, Run, SnapshotId
from reclaim.policy import Decisions, Policy, require_rules, unmatched_sentences
from reclaim.run.decide import check_counts, decide
from reclaim.run.edit_counts import EditCounts
from reclaim.run.plan_document import LibraryEdit
from reclaim.run.reviewed_edit import EditAgain, ReviewedEdit, make_edit
from reclaim.stores.abilities import HistorySeen


@dataclass(frozen=True, slots=True)
class ExpirePlan:
    """The edit that an expiration would make, with a decision for every snapshot."""

    read: HistorySeen
    decisions: Decisions
    edit: Edit
    reviewed: ReviewedEdit
    library_edit: LibraryEdit | None = None
    """The edit that the store's own library is asked for, if that edits the history."""

    def warnings(self) -> tuple[str, ...]:
        """Rules that are for nothing."""
        return unmatched_sentences(self.reviewed.policy, self.read.refs)

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
    read = _read(repository, messages=True)
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
    edit = decided.edit
    expired = decided.history.numbers.keys() - decided.decisions.kept
    reviewed = ReviewedEdit(
        policy, read.read_at, expired, frozenset(edit.unreachable), edit.delete_refs, refs
    )
    return ExpirePlan(read, decided.decisions, edit, reviewed)


def apply_expire(repository: Repository, plan: ExpirePlan) -> Run | None:
    """Apply a plan; None when there was nothing to do."""
    # Commits that a run has marked cannot be edited; one that died has no more use for its marks.
    repository.release_left_over()
    runs: list[Run] = []

    def make(again: EditAgain, seen: HistorySeen) -> bool:
        assert isinstance(seen, HistoryRead)
        edit = again.edit
        summary = EditCounts.of(edit, again.released).record()
        written = HistoryEdit.of(seen, edit.reparent, edit.delete_refs)
        run = repository.edit_history(written, seen, kind=EXPIRE, summary=summary)
        if run is not None:
            runs.append(run)
        return run is not None

    make_edit(plan.reviewed, lambda: _read(repository), make)
    return runs[0] if runs else None


def _read(repository: Repository, *, messages: bool = False) -> HistoryRead:
    """The history, unless there is an edit in it that may still be taken back."""
    read = repository.read_history(messages=messages)
    if read.editor is not None:
        raise edit_in_progress(read.editor)
    return read
