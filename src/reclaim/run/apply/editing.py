"""The edit of the history by an apply: what expires is taken out of it, by the plan and as it
stands.

Until the promotion an end of any kind takes the edit back. That of the store's own library nobody
can take back: what it took out and nobody has reviewed is spared.
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
from reclaim.run.expire.reviewed_edit import EditAgain, ReviewedEdit, make_edit
from reclaim.run.plan.decide import KEEPS_ALL, Decided, decide_seen
from reclaim.run.plan.plan_document import LibraryEdit
from reclaim.run.plan.plan_snapshots import PlannedSnapshots
from reclaim.run.record.record_writer import RecordWriter
from reclaim.run_record import NO_EDIT, EditCounts, Phase
from reclaim.stores.abilities import EditsHistory, Expiration, HistorySeen
from reclaim.stores.base import Held
from reclaim.stores.observation import Observation


class Editing:
    """The edit of one apply, made and, if the run stops, taken back."""

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
        """Whether history is edited by this apply, or may be, and that was not taken back."""
        return self._edited or self._library_notes.edited

    def edit(self, decided: PlannedSnapshots) -> EditCounts:
        """Take out of the history what expires; returns the size of the edit, which is noted."""
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
        self, policy: Policy, decided: PlannedSnapshots, asked: LibraryEdit
    ) -> EditCounts:
        expiration = Expiration(
            policy,
            self._document.read_at,
            asked.delete_expired_tags,
            asked.delete_expired_branches,
        )
        context = self._context
        return edit_by_library(
            context.store, context.held, expiration, decided, self._library_notes
        )

    def _edit(self, policy: Policy, decided: PlannedSnapshots) -> EditCounts:
        held = _editing(self._context.held)
        if self._context.begun and not self._writer.record.promoted:
            self._roll_own_edit_back(held)

        def make(again: EditAgain, seen: HistorySeen) -> bool:
            # An error need not mean that it was not saved.
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
        """The refs that the plan is narrowed to, with the snapshots that they pointed to."""
        section = self._document.history_only
        refs = {} if section is None else section.refs
        return {name: SnapshotId(tip) for name, tip in refs.items()}

    def _roll_own_edit_back(self, held: EditsHistory) -> None:
        """Take back the edit of an apply that died: it would hide from the rules what it took."""
        if held.roll_back() is None:
            self._writer.replace(phase=Phase.PROMOTED)
        else:
            self._writer.replace_edit(counts=NO_EDIT)

    # What the library did, as it is seen

    def spare(self, seen: Observation, now: Decided) -> Decided:
        """The decisions as of now, sparing what the store's library took out beyond the plan, or
        beyond what was predicted when it was asked.

        Nobody has reviewed that. It stays, with all that it needs, until a later plan names it; for
        as long as it is not condemned, somebody may name it too.
        """
        if self._library_edit is None or self._context.store.deleted:
            return now
        self._unplanned = self._library_notes.find_unplanned(seen.ids - now.live)
        return decide_seen(KEEPS_ALL, seen, spared=self._unplanned) if self._unplanned else now

    def compare(self, decided: PlannedSnapshots, now: Decided) -> None:
        """Note where the store's library did less than the plan says, and where more."""
        if self._library_edit is not None:
            spared = sum(1 for one in decided.dead if one in now.live)
            # By the plan these get out of reach, and stay all the same.
            left = decided.live & decided.released
            self._writer.replace_edit(unplanned=len(self._unplanned - left), spared=spared)
            self._library_notes.note_unplanned(self._unplanned)

    # The end of a run that stops

    def take_back(self, phase: Phase) -> Phase:
        """Take the edit of a run that stops back, unless it has promoted; returns the phase of the
        run then, which would be ``phase`` without an edit."""
        may_have_edited = not self._context.store.deleted and not self._library_edit
        if not self._writer.record.promoted and may_have_edited:
            phase = self._roll_back(phase)
        if self._promises_library_edit():
            # Nobody can take that edit back: for as long as the run can be finished or undone, it
            # promises what the library released.
            return Phase.STARTED
        return phase

    def _roll_back(self, phase: Phase) -> Phase:
        """Roll back what this run has edited. The store knows whether what is not known here was
        saved."""
        held, writer = self._context.held, self._writer
        if not isinstance(held, EditsHistory):
            return phase
        try:
            left = held.roll_back()
        except Exception:
            # Left as started, it is rolled back by whoever has the lock next.
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
        """Whether a library has edited for this run, which was to set objects aside and has not
        come so far."""
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
