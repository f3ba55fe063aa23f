"""A repository of spec 2 whose lock is held.

``repo`` follows the lists: condemned snapshots are removed from it, which prevents new references,
and put back when released. Snapshots expired by the library are recorded before, and put back
unless the run condemns them. Edits of the history, by Reclaim or by the library, are recorded and
can be reverted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from reclaim.errors import Conflict, Refused
from reclaim.history import build
from reclaim.model import Ref, Snapshot, SnapshotId
from reclaim.run_record import Phase, RunRecord
from reclaim.safety import SAFETY
from reclaim.stores.abilities import EditsHistory, Expiration, HistorySeen, Restored
from reclaim.stores.icechunk import history as histories
from reclaim.stores.icechunk.addresses import REPO, SNAPSHOTS
from reclaim.stores.icechunk.edit_records import EditedParent, EditRecord
from reclaim.stores.icechunk.expiration import leaving_repo, predict_edit
from reclaim.stores.icechunk.format import OLD_BACKUP, read_snapshot
from reclaim.stores.icechunk.held import HeldIcechunk
from reclaim.stores.icechunk.library import load_library
from reclaim.stores.icechunk.observing import IcechunkObserver
from reclaim.stores.icechunk.repo_document import RepoDocument, RepoEntry
from reclaim.stores.icechunk.repo_editor import RepoEditor, RepoTakenBack
from reclaim.stores.icechunk.repo_file import RepoFile
from reclaim.stores.icechunk.withdrawn import FILE, Withdrawn
from reclaim.stores.sidecar.condemned import Condemnation
from reclaim.stores.sidecar.lock import SidecarLock
from reclaim.stores.sidecar.sidecar import Sidecar

NO_RECORD = (
    f"its former entry in `repo` is missing in {FILE} beside the repository; restore that file "
    "from a backup"
)


class HeldRepo(HeldIcechunk, EditsHistory):
    """Handle of a repository of spec 2."""

    def __init__(self, lock: SidecarLock, sidecar: Sidecar, observer: IcechunkObserver) -> None:
        super().__init__(lock, sidecar, observer)
        self._withdrawn = observer.withdrawn
        self._edits = observer.edits
        self._editor = RepoEditor(
            observer.storage, observer.format, observer.withdrawn, observer.clock
        )
        self._left: Sequence[str] = ()
        """Parts of an edit which were not reverted."""

    def begin(self) -> None:
        """Put back snapshots removed by dead runs, and revert the edits of such runs."""
        super().begin()
        self._follow_lists()
        for run_id, record in self._observer.unfinished_edits().items():
            if run_id == self.lock.run_id:
                continue
            not_reverted = self._take_back(record).left
            if (run := self._records.find(run_id)) is not None:
                self.finish(run.rolled_back(tuple(not_reverted)))
            if not not_reverted:
                self._edits.remove(run_id)
        for run_id in self._observer.ended_edits():
            self._edits.remove(run_id)

    def condemn(self, rules: Mapping[SnapshotId, str]) -> int:
        super().condemn(rules)
        # A ref may have been created before the removal.
        kept = self._follow_lists() & rules.keys()
        if kept:
            super().release(kept)
        condemned = self._lists.of(self.lock.run_id, Condemnation.PROVISIONAL)
        self._withdrawn.note_never_listed(rules.keys() & condemned.keys())
        return len(rules.keys() & condemned.keys())

    def promote(self) -> int:
        """Make provisional states terminal, if ``repo`` still does not list those snapshots.

        On a disk a writer may have replaced ``repo`` with an older version.
        """
        run = self._working()
        back = self._follow_lists() & self._lists.of(run, Condemnation.PROVISIONAL).keys()
        if back:
            raise Conflict(
                f"the snapshot {min(back)}, which was to be removed, is referenced again",
                hint="nothing was deleted; apply the plan again",
            )
        return super().promote()

    def release(self, ids: Collection[SnapshotId]) -> None:
        super().release(ids)
        self._follow_lists()

    def abandon(self) -> None:
        super().abandon()
        self._follow_lists()

    def collect(self, ids: Collection[SnapshotId]) -> int:
        self._working()
        self._withdrawn.remove(self._condemned_by_others(ids, excluding=self._undoable()).keys())
        return super().collect(ids)

    def forget(self, run_id: str) -> int:
        self._working()
        self._withdrawn.remove(self._lists.taken_by(run_id).keys())
        self._edits.remove(run_id)
        return super().forget(run_id)

    def free_kinds(self, kinds: Collection[str]) -> None:
        """Free backups of kinds to be deleted from the operations log."""
        self._working()
        if OLD_BACKUP in kinds:
            self._observer.check()
            self._editor.rotate_log(self.lock.check)
            self._observer.collects_backups = True

    # History

    def edit_history(
        self,
        reparent: Mapping[SnapshotId, tuple[SnapshotId, ...]],
        delete_refs: Sequence[Ref],
        seen: HistorySeen,
    ) -> bool:
        run = self._working()
        self._observer.check()

        def is_as_seen(document: RepoDocument) -> bool:
            return _parts(document) == _seen_parts(seen)

        earlier = self._edits.read(run)
        is_edited = self._editor.edit(
            {id: parents[0] if parents else None for id, parents in reparent.items()},
            {(ref.kind, ref.name) for ref in delete_refs},
            is_as_seen,
            lambda record: self._edits.write(run, record.after(earlier)),
            self.lock.check,
        )
        if not is_edited and earlier is not None:
            self._edits.write(run, earlier)
        elif not is_edited:
            self._edits.remove(run)
        return is_edited

    def expire_by_library(self, expiration: Expiration, seen: HistorySeen) -> bool:
        run = self._working()
        self._observer.check()
        load_library()
        history = build(*_of_repo(self._observer.read_repo()))
        # The library's compare and swap does not compare with the history in ``seen``.
        if set(history.refs) != set(seen.refs):
            return False
        entries = self._editor.read().entries()
        edit = predict_edit(history, expiration, spec=self._format.spec)
        record = EditRecord(
            {
                id: EditedParent(entries[id].parent, new[0], tuple(entries[id].pruned()))
                for id, new in edit.reparent.items()
                if id in entries
            },
            {(ref.kind, ref.name): ref.snapshot for ref in edit.delete_refs},
            by_library=True,
        )
        leaving = leaving_repo(history, expiration)
        pending = {
            id: Withdrawn(entry, pending=True) for id, entry in entries.items() if id in leaving
        }
        # Record before the library's edit: a snapshot without a record could not be put back.
        earlier = self._edits.read(run)
        self._edits.write(run, record.after(earlier))
        self._withdrawn.write({**self._withdrawn.read(), **pending})
        self._ask_library(expiration)
        self._flush([f"{self._format.prefix}{REPO}"])
        document = self._editor.read()
        after = document.entries()
        # A ref kept by the library and deleted later by others must not be put back.
        self._edits.write(run, record.without_refs(document.refs()).after(earlier))
        # Snapshots removed beyond the prediction, because a ref moved in the meantime.
        beyond = entries.keys() - after.keys() - leaving
        known = {
            id: removed
            for id, removed in self._withdrawn.read().items()
            if not removed.pending or id not in after
        }
        more = {id: Withdrawn(entries[id], pending=True) for id in beyond}
        self._withdrawn.write({**known, **more})
        return True

    def undo_edit(self) -> Sequence[str]:
        run_id = self._working()
        run, record = self._records.find(run_id), self._edits.read(run_id)
        is_done = run is not None and run.phase == Phase.DONE
        if run is not None and run.promoted and not is_done:
            raise Refused(
                f"run {run_id} quarantined nothing and has deleted objects, which cannot "
                "be restored",
                hint="finish it: apply its plan again; then its edit of the history can be undone, "
                "as far as snapshots are left",
            )
        if record is None:
            raise Refused(
                f"run {run_id} has no edit of the history to revert, and put nothing in "
                "quarantine: there is nothing to undo",
                hint="apply with --quarantine to be able to undo it",
            )
        self._follow_lists()
        done = self._take_back(record)
        if done.left and not done.changed:
            raise Refused(
                f"the edit of run {run_id} cannot be reverted: {'; '.join(done.left)}",
                hint="create a branch or a tag at a remaining snapshot",
            )
        until = None if run is None else run.started_at + SAFETY.quarantine
        self._leases.hold_returned(self._newest(record), run_id, until)
        self._end(run_id)
        return done.left

    def _newest(self, record: EditRecord) -> Sequence[SnapshotId]:
        """Newest snapshots removed from the history by an edit: none is an ancestor of another."""
        entries = self._editor.read().entries()
        removed = {id for id in record.passed_over() if id in entries}
        below: set[SnapshotId] = set()
        for id in removed:
            parent = entries[id].parent
            while parent is not None and parent in entries and parent not in below:
                below.add(SnapshotId(parent))
                parent = entries[SnapshotId(parent)].parent
        return sorted(removed - below)

    def roll_back(self) -> Sequence[str] | None:
        run_id = self._working()
        run = self._records.find(run_id)
        if self._lists.taken_by(run_id) or (run is not None and run.promoted):
            return None
        self.abandon()
        record = self._edits.read(run_id)
        if record is None:
            return []
        not_reverted = self._take_back(record).left
        if not not_reverted:
            self._edits.remove(run_id)
        return not_reverted

    def _take_back(self, record: EditRecord) -> RepoTakenBack:
        return self._editor.take_back(record, self.lock.check)

    # Undo

    def restore(self, run_id: str, whole: Collection[SnapshotId], *, complete: bool) -> Restored:
        taken = [id for id in self._lists.taken_by(run_id) if id in set(whole)]
        lost = set(self._record_missing(taken))
        usable = [id for id in whole if id not in lost]
        restored = super().restore(run_id, usable, complete=complete and not lost)
        waits = [sentence for sentence in restored.waits if sentence.partition(":")[0] not in lost]
        waits += [f"{id}: {NO_RECORD}" for id in sorted(lost)]
        return replace(restored, waits=waits)

    def _record_missing(self, snapshots: Iterable[SnapshotId]) -> Sequence[SnapshotId]:
        """Record snapshots removed before an upgrade of the repository to spec 2, which does not
        know them. Their files contain all the data ``repo`` needs, except for metadata, which stays
        in the file: spec 2 encodes it differently.

        Return the snapshots written by spec 2 without a record, which cannot be restored.
        """
        known, never_listed = self._withdrawn.read(), self._withdrawn.never_listed()
        entries = self._editor.read().entries()
        more: dict[SnapshotId, Withdrawn] = {}
        lost: list[SnapshotId] = []
        for id in snapshots:
            if id not in known and id not in entries:
                address = self._format.address(SNAPSHOTS, id)
                file = read_snapshot(self._observer.storage, address)
                if file.spec == 1:
                    more[id] = Withdrawn(RepoEntry.of_file(file))
                elif id not in never_listed:
                    lost.append(id)
        if more:
            self._withdrawn.write({**known, **more})
        return lost

    def _after_restore(self, run_id: str, ids: Collection[SnapshotId]) -> None:  # noqa: ARG002
        self._follow_lists()
        record = self._edits.read(run_id)
        self._left = () if record is None else self._take_back(record).left

    def _end(self, run_id: str) -> None:
        super()._end(run_id)
        self._edits.remove(run_id)

    def _has_edited(self, run_id: str, run: RunRecord | None) -> bool:
        return super()._has_edited(run_id, run) or self._edits.read(run_id) is not None

    def _left_of_edit(self, run_id: str, run: RunRecord | None) -> Sequence[str]:  # noqa: ARG002
        return self._left

    # The file ``repo``

    def _refs(self) -> Sequence[Ref]:
        return histories.of_repo(self._observer.read_repo()).refs

    def _existing(self, ids: Collection[SnapshotId]) -> Collection[SnapshotId]:
        self._follow_lists()
        entries = self._editor.read().entries()
        return [id for id in ids if id in entries]

    def _follow_lists(self) -> frozenset[SnapshotId]:
        """Update ``repo`` from the lists; return listed snapshots which are nevertheless
        referenced.
        """
        return self._editor.follow(self._listed(), self.lock.check)


def _of_repo(repo: RepoFile) -> tuple[Sequence[Snapshot], Sequence[Ref]]:
    read = histories.of_repo(repo).read()
    return read.snapshots, read.refs


def _parts(document: RepoDocument) -> tuple[object, object]:
    """Refs and parents of a document, for comparison."""
    return document.refs(), {id: entry.parent for id, entry in document.entries().items()}


def _seen_parts(seen: HistorySeen) -> tuple[object, object]:
    return (
        {(ref.kind, ref.name): ref.snapshot for ref in seen.refs},
        {
            snapshot.id: snapshot.parents[0] if snapshot.parents else None
            for snapshot in seen.snapshots
        },
    )
