"""Expire: plan an edit of a repository's history from a policy, show it, apply it.

The plan is made from one snapshot and is pure from there on. When the history has changed by the
time it is applied, it is decided again, and what expires by both decisions is taken out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reclaim.catalog import HistoryEdit, HistoryRead, Repository
from reclaim.catalog.collection.undo.editors import EXPIRE
from reclaim.history import Edit
from reclaim.lock import edit_in_progress
from reclaim.model import SnapshotId
from reclaim.policy import Decisions, Policy, require_rules, unmatched_sentences
from reclaim.run.expire.edit_counts import count_edit
from reclaim.run.expire.reviewed_edit import EditAgain, ReviewedEdit, make_edit
from reclaim.run.plan.decide import Decided, check_counts, decide
from reclaim.run.plan.plan_document import LibraryEdit
from reclaim.run_record import RunRecord
from reclaim.stores.abilities import HistorySeen


@dataclass(frozen=True, slots=True)
class ExpirePlan:
    """The edit that an expiration would make, with a decision for every snapshot."""

    read: HistorySeen
    decided: Decided
    reviewed: ReviewedEdit
    library_edit: LibraryEdit | None = None
    """The edit that the store's own library is asked for, if that edits the history."""

    @property
    def decisions(self) -> Decisions:
        return self.decided.decisions

    @property
    def edit(self) -> Edit:
        return self.decided.edit

    def warnings(self) -> tuple[str, ...]:
        """Rules that are for nothing."""
        return unmatched_sentences(self.reviewed.policy, self.read.refs)

    def released(self) -> tuple[SnapshotId, ...]:
        """The snapshots that no ref reaches any more because of the edit."""
        released = self.decided.released()
        return tuple(snapshot for snapshot in self.edit.unreachable if snapshot in released)


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
        leases=read.returned,
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
    return ExpirePlan(read, decided, reviewed)


def apply_expire(repository: Repository, plan: ExpirePlan) -> RunRecord | None:
    """Apply a plan; None when there was nothing to do."""
    # Commits that a run has marked cannot be edited; one that died has no more use for its marks.
    repository.release_left_over()
    runs: list[RunRecord] = []

    def make(again: EditAgain, seen: HistorySeen) -> bool:
        assert isinstance(seen, HistoryRead)
        edit = again.edit
        written = HistoryEdit.of(seen, edit.reparent, edit.delete_refs)
        run = repository.edit_history(
            written, seen, kind=EXPIRE, counts=count_edit(edit, again.released)
        )
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
