"""A repository whose lock is held: the only way to change collectable data.

Every change is a change of state in a row, in a transaction that fails if the lock was lost.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

from reclaim.catalog import HistoryEdit, HistoryRead
from reclaim.catalog.collection import records
from reclaim.catalog.collection.clones import copies
from reclaim.catalog.collection.condemn import claimed_addresses, commit_states, leftovers
from reclaim.catalog.collection.edit import history_edit, rollback
from reclaim.catalog.collection.locks import RepositoryLock
from reclaim.catalog.collection.undo import undoing
from reclaim.catalog.reaping import empty_partitions, missing_objects, obsolete_rows
from reclaim.catalog.staging.upload_expiry import expire_uploads
from reclaim.catalog.workspace import Workspace
from reclaim.errors import ReclaimError
from reclaim.model import Ref, SnapshotId
from reclaim.run_record import EXPIRE, Phase, RunRecord
from reclaim.storage import Storage
from reclaim.stores.abilities import (
    AddressFiles,
    EditsHistory,
    HeldClaims,
    HeldGuards,
    HeldQuarantine,
    HistorySeen,
    Restored,
)
from reclaim.stores.base import Held
from reclaim.stores.catalog.format import METARANGE
from reclaim.stores.observation import Observation

CHECKED_ROWS = 100_000
"""Maximum number of rows checked for deleted objects at the end of a run; `reclaim clean` checks
all.
"""

log = logging.getLogger(__name__)


class HeldRepository(Held, EditsHistory, HeldClaims, HeldGuards, HeldQuarantine):
    """A repository, held by a run."""

    lock: RepositoryLock

    def __init__(self, workspace: Workspace, lock: RepositoryLock) -> None:
        self._workspace = workspace
        self.lock = lock

    def begin(self) -> None:
        """Revert leftovers of dead runs, and increment the run counter, which exposes clones."""
        leftovers.release_under(self._workspace, self.lock)
        copies.count_run(self._workspace, self.lock.run_id)

    def close_overdue(self) -> None:
        """Close overdue partitions and uploads permanently."""
        commit_states.close_overdue(self._workspace)
        work = self._workspace
        expire_uploads(work.database, work.clock, work.repo_uid)

    # Condemning

    def condemn(self, rules: Mapping[SnapshotId, str]) -> int:
        return commit_states.mark(self._workspace, self.lock, rules)

    def release(self, ids: Collection[SnapshotId]) -> None:
        commit_states.release(self._workspace, self.lock, ids)

    def promote(self) -> int:
        return commit_states.promote(self._workspace, self.lock)

    def abandon(self) -> None:
        leftovers.release_under(self._workspace, self.lock)

    def collect(self, ids: Collection[SnapshotId]) -> int:
        """Reduce condemned commits with deleted bytes to a note on the deletion.

        Commits with objects quarantined by another run are skipped: that run can be undone.
        """
        return commit_states.collect(self._workspace, self.lock, ids, exclude_runs=self._undoable())

    # Claims to objects of live commits

    def claim(self, going: Iterable[tuple[str, str]]) -> int:
        return claimed_addresses.claim(self._workspace, self.lock, going)

    def close_claims(self) -> None:
        claimed_addresses.close(self._workspace, self.lock)

    def drop_claims(self, needed: Iterable[str]) -> int:
        return claimed_addresses.drop(self._workspace, self.lock, needed)

    def drop_staged_claims(self) -> int:
        return claimed_addresses.drop_staged(self._workspace, self.lock)

    def promote_claims(self, seen: Observation, rules: str) -> bool:
        return claimed_addresses.promote(
            self._workspace,
            self.lock,
            refs=seen.refs,
            leases=seen.leases,
            rules=rules,
            protect=seen.protect,
        )

    def has_promoted(self) -> bool:
        return claimed_addresses.is_promoted(self._workspace, self.lock.run_id)

    def write_claimed(self, destination: Storage, prefix: str) -> AddressFiles:
        files = claimed_addresses.write_claimed(
            self._workspace, self.lock.run_id, destination, prefix
        )
        return AddressFiles(tuple(files), tuple(files.values()))

    def release_claims(self, run_id: str, at_home: Iterable[str]) -> int:
        return claimed_addresses.release_at_home(self._workspace, self.lock, run_id, at_home)

    def forget_expired(self, addresses: Iterable[str]) -> int:
        return claimed_addresses.forget(self._workspace, self.lock, addresses)

    # History

    def read_history(self) -> HistoryRead:
        return history_edit.read_history(self._workspace, self._workspace.default_branch)

    def edit_history(
        self,
        reparent: Mapping[SnapshotId, tuple[SnapshotId, ...]],
        delete_refs: Sequence[Ref],
        seen: HistorySeen,
    ) -> bool:
        """Apply the run's edit of the history atomically, if the history is unchanged."""
        assert isinstance(seen, HistoryRead)
        edit = HistoryEdit.of(seen, reparent, delete_refs)
        return history_edit.edit_under(self._workspace, self.lock, edit, seen)

    def undo_edit(self) -> Sequence[str]:
        return undoing.undo_edit(self._workspace, self.lock, self.lock.run_id)

    def roll_back(self) -> Sequence[str] | None:
        return rollback.roll_back(self._workspace, self.lock, self.lock.run_id)

    # Quarantine

    def set_aside(self, ids: Collection[SnapshotId]) -> int:
        """Record the quarantine of the objects of the run's commits.

        Commits condemned by an ended run, and not taken over, cannot be restored and are reduced.
        Commits of other undoable runs are skipped: an undo restores them.
        """
        return commit_states.mark_quarantined(self._workspace, self.lock, ids) + self.collect(ids)

    def left_condemned(self) -> Mapping[SnapshotId, Mapping[str, str]]:
        condemned = commit_states.list_condemned(self._workspace, self._undoable(and_own=True))
        return {
            SnapshotId(commit_id): {METARANGE: metarange} if metarange else {}
            for commit_id, metarange in condemned.items()
        }

    def take_over(self, ids: Collection[SnapshotId]) -> int:
        return commit_states.take_over(
            self._workspace, self.lock, ids, exclude_runs=self._undoable()
        )

    def restore(self, run_id: str, whole: Collection[SnapshotId], *, complete: bool) -> Restored:
        done = undoing.restore(self._workspace, self.lock, run_id, whole, complete=complete)
        if done.released_claims:
            claimed_addresses.remove_released(self._workspace, self.lock)
        return Restored(done.commits, done.left, done.waits, done.held)

    def forget(self, run_id: str) -> int:
        return commit_states.forget(self._workspace, self.lock, run_id)

    def _undoable(self, *, and_own: bool = False) -> Sequence[str]:
        """Other undoable runs; with ``and_own`` this run as well."""
        runs = records.all_runs(self._workspace)
        own = self.lock.run_id
        others = [run.id for run in runs if run.quarantine and run.id != own]
        return [*others, own] if and_own else others

    # Records

    def start(self, run: RunRecord) -> None:
        records.start(self._workspace, self.lock, run)

    def finish(self, run: RunRecord) -> None:
        records.finish(self._workspace, self.lock, run)
        if run.phase == Phase.DONE and run.kind != EXPIRE:
            self._remove_obsolete_rows()

    def _remove_obsolete_rows(self) -> None:
        """Remove rows of objects deleted by this run or earlier runs. A later run can do it as
        well.
        """
        work = self._workspace
        try:
            obsolete_rows.remove_after_run(work.database, work.clock, work.repo_uid)
            missing_objects.remove(
                work.database, work.storage, work.clock, work.repo_uid, at_most=CHECKED_ROWS
            )
            if not any(run.quarantine for run in records.all_runs(work)):
                empty_partitions.remove(work.database, work.storage, work.clock, work.repo_uid)
        except ReclaimError as error:
            log.warning("rows of deleted objects were not removed: %s", error)

    def adopt(self, unknown: Collection[str]) -> None:
        """Register partitions known only from the storage; see ``copies``."""
        copies.adopt(self._workspace, self.lock.run_id, unknown)
