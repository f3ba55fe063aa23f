"""History edits of an apply: remove expired snapshots, by the plan and the current history.

If the run stops before the promotion, the edit is rolled back. Edits by the store's own library
cannot be rolled back: snapshots it removed without review are spared.
"""

from __future__ import annotations

from collections.abc import Mapping

from reclaim.errors import PlanRefused
from reclaim.model import SnapshotId
from reclaim.policy import Policy, parse_policy
from reclaim.run.apply.context import ApplyContext
from reclaim.run.expire.edit_counts import count_edit
from reclaim.run.expire.library_edit import edit_by_library
from reclaim.run.expire.library_notes import LibraryNotes
from reclaim.run.expire.reviewed_edit import CurrentEdit, ReviewedEdit, make_edit
from reclaim.run.plan.decide import KEEPS_ALL, Decided, decide_seen
from reclaim.run.plan.plan_document import LibraryEdit
from reclaim.run.plan.plan_snapshots import PlannedSnapshots
from reclaim.run.record.record_writer import RecordWriter
from reclaim.run_record import NO_EDIT, EditCounts, Phase
from reclaim.stores.abilities import EditsHistory, Expiration, HistorySeen
from reclaim.stores.base import Held
from reclaim.stores.observation import Observation


class Editing:
    """Edit of the history in a single apply, rolled back if the run stops."""

    def __init__(self, context: ApplyContext, writer: RecordWriter) -> None:
        self._context = context
        self._writer = writer
        self._document = context.basis.document
        self._library_edit = self._document.library_edit
        self._library_notes = LibraryNotes(context.store, writer, context.earlier)
        self._unplanned: frozenset[SnapshotId] = frozenset()
        # Whether history may be edited by a run that has promoted nothing.
        self._edited = False

    def has_edited(self) -> bool:
        """Whether this apply has edited the history, or may have, and the edit stands."""
        return self._edited or self._library_notes.edited

    def edit(self, decided: PlannedSnapshots) -> EditCounts:
        """Remove expired snapshots from the history; return and record the size of the edit."""
        policy = parse_policy(self._document.rules, source="the plan's policy")
        if policy.empty or self._context.store.deleted:
            counts = NO_EDIT
        elif self._library_edit is not None:
            counts = self._edit_by_library(policy, decided, self._library_edit)
        else:
            counts = self._edit(policy, decided)
        self._writer.replace_edit(counts=self._writer.record.edit.counts + counts)
        return counts

    def _edit_by_library(
        self, policy: Policy, decided: PlannedSnapshots, requested: LibraryEdit
    ) -> EditCounts:
        expiration = Expiration(
            policy,
            self._document.read_at,
            requested.delete_expired_tags,
            requested.delete_expired_branches,
        )
        context = self._context
        return edit_by_library(
            context.store, context.held, expiration, decided, self._library_notes
        )

    def _edit(self, policy: Policy, decided: PlannedSnapshots) -> EditCounts:
        held = _editing(self._context.held)
        if self._context.begun and not self._writer.record.promoted:
            self._roll_own_edit_back(held)

        def make(again: CurrentEdit, seen: HistorySeen) -> bool:
            # The edit may be saved despite an error.
            self._edited = not self._writer.record.promoted
            return held.edit_history(again.edit.reparent, again.edit.delete_refs, seen)

        reviewed = ReviewedEdit(
            policy,
            self._document.read_at,
            decided.expired,
            decided.released,
            decided.delete_refs,
            self._limit(),
        )
        again = make_edit(reviewed, held.read_history, make)
        return count_edit(again.edit, again.released)

    def _limit(self) -> Mapping[str, SnapshotId]:
        """Refs selected by the plan, with their planned snapshots."""
        section = self._document.history_only
        refs = {} if section is None else section.refs
        return {name: SnapshotId(tip) for name, tip in refs.items()}

    def _roll_own_edit_back(self, held: EditsHistory) -> None:
        """Roll back the edit of an interrupted apply, which would hide snapshots from the rules."""
        if held.roll_back() is None:
            self._writer.replace(phase=Phase.PROMOTED)
        else:
            self._writer.replace_edit(counts=NO_EDIT)

    # Edits by the library

    def spare(self, seen: Observation, now: Decided) -> Decided:
        """Return the current decisions, sparing snapshots the library removed beyond the plan or
        beyond its prediction.

        Nobody has reviewed their removal. They stay, with all objects they need, until a later plan
        names them. Until they are condemned, a new ref may point to them.
        """
        if self._library_edit is None or self._context.store.deleted:
            return now
        self._unplanned = self._library_notes.find_unplanned(seen.ids - now.live)
        return decide_seen(KEEPS_ALL, seen, spared=self._unplanned) if self._unplanned else now

    def compare(self, decided: PlannedSnapshots, now: Decided) -> None:
        """Record the differences between the library's edit and the plan."""
        if self._library_edit is not None:
            spared = sum(1 for snapshot in decided.dead if snapshot in now.live)
            # The plan releases these snapshots without deleting them.
            left = decided.live & decided.released
            self._writer.replace_edit(unplanned=len(self._unplanned - left), spared=spared)
            self._library_notes.note_unplanned(self._unplanned)

    # Interrupted runs

    def roll_back(self, phase: Phase) -> Phase:
        """Roll back the edit of a run that stops, unless it has promoted. Return the phase of the
        run after that; ``phase`` if there was no edit."""
        may_have_edited = not self._context.store.deleted and not self._library_edit
        if not self._writer.record.promoted and may_have_edited:
            phase = self._roll_back_edit(phase)
        if self._promises_library_edit():
            # The edit is permanent. While the run can be finished or undone, it promises the
            # snapshots released by the library.
            return Phase.STARTED
        return phase

    def _roll_back_edit(self, phase: Phase) -> Phase:
        """Roll back edits of this run. The store knows whether an uncertain edit was saved."""
        held, writer = self._context.held, self._writer
        if not isinstance(held, EditsHistory):
            return phase
        try:
            left = held.roll_back()
        except Exception:
            # A run in phase "started" is rolled back by the next holder of the lock.
            return writer.record.phase if self._edited or self._context.begun else phase
        if left is None:
            writer.may_have_promoted = True
            writer.replace(phase=Phase.PROMOTED)
            return Phase.PARTIAL
        writer.not_promoted()
        writer.replace_edit(
            counts=NO_EDIT,
            taken_back=self._edited or self._context.begun,
            left=tuple(left),
        )
        if not left:
            self._edited = False
        return Phase.STOPPED

    def _promises_library_edit(self) -> bool:
        """Whether a library edited the history for this run before its objects were in
        quarantine."""
        record = self._writer.record
        edited = record.edit.by_library and record.phase is Phase.STARTED
        return edited and self._context.removal.name is not None


def _editing(held: Held) -> EditsHistory:
    if not isinstance(held, EditsHistory):
        raise PlanRefused(
            "the plan edits history, and only the store's own tools can do that",
            hint="plan it again without rules",
        )
    return held
