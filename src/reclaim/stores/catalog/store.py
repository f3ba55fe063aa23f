"""A repository of the catalog, as a store."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from reclaim.catalog import Roots
from reclaim.catalog.collection import locks, policies, records
from reclaim.catalog.collection.clones import copies
from reclaim.catalog.collection.condemn import claimed_addresses, leftovers
from reclaim.catalog.collection.edit import history_edit
from reclaim.catalog.collection.roots import observing, promised
from reclaim.catalog.collection.undo import undoing
from reclaim.catalog.reaping.backlog import read_backlog
from reclaim.catalog.refs import leases
from reclaim.catalog.settings import read_settings
from reclaim.catalog.staging import claims, cleaner
from reclaim.catalog.workspace import Workspace
from reclaim.clock import to_micros
from reclaim.lock import LockState
from reclaim.model import Lease, SnapshotId
from reclaim.run_record import RunRecord
from reclaim.storage import Storage
from reclaim.storage.buckets import Upload
from reclaim.stores.abilities import (
    AddressFiles,
    DeletesOnline,
    Examines,
    HistorySeen,
    HoldsLeases,
    KeepsGuards,
    KeepsParents,
    OnlineDeletes,
    Quarantines,
    ShowsHistory,
    TakesReferenced,
)
from reclaim.stores.catalog.examination import CatalogExamination, old_uploads, unknown_partitions
from reclaim.stores.catalog.format import METARANGE, CatalogFormat
from reclaim.stores.catalog.held import HeldRepository
from reclaim.stores.catalog.uploads import abort_uploads
from reclaim.stores.findings import Advance, Finding
from reclaim.stores.observation import Observation, ObserveRequest, SnapshotCounts

SAFETY_BASIS = "Every reference is a row of one database and was read after the listing."


class CatalogStore(
    HoldsLeases,
    DeletesOnline,
    Examines,
    KeepsGuards,
    KeepsParents,
    Quarantines,
    ShowsHistory,
    TakesReferenced,
):
    """A repository, as seen by the collector. Changes require the lock: see ``held``."""

    kind = "catalog"
    noun = "commit"
    exact = True
    quarantine_by_default = False
    safety_basis = SAFETY_BASIS
    handle = HeldRepository
    format: CatalogFormat

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.name = workspace.name
        self.uid = workspace.repo_uid
        self.deleted = workspace.deleted
        self.created_at = workspace.created_at
        self.storage = workspace.storage
        self.clock = workspace.clock
        self.format = CatalogFormat(self.storage.url, self.uid, self.deleted)

    def check(self) -> None:
        copies.check(self._workspace)

    def check_epoch(self) -> None:
        """Refuse a storage already written by a newer copy of the database."""
        copies.check_epoch(self._workspace)

    def roots(self, destination: Storage, prefix: str, *, settled: bool = False) -> Roots:
        """All roots, read in a single snapshot of the database."""
        return observing.observe(
            self._workspace,
            self._workspace.default_branch,
            destination,
            prefix,
            settled=settled,
            protecting=not self._workspace.deleted,
        )

    def observe(self, request: ObserveRequest) -> Observation:
        roots = self.roots(request.destination, request.prefix, settled=request.settled)
        ids = frozenset(snapshot.id for snapshot in roots.history.snapshots)
        return Observation(
            refs=roots.history.refs,
            ids=ids,
            snapshots=roots.history.snapshots,
            leases=roots.leases,
            busy=roots.history.busy,
            containers={
                METARANGE: {
                    SnapshotId(commit): metarange
                    for commit, metarange in roots.metaranges.items()
                    if metarange
                }
            },
            marked={SnapshotId(commit): state for commit, state in roots.states.items()},
            closed=roots.closed | roots.overdue,
            open=roots.open,
            held=tuple(request.prefix + file for file in roots.files),
            held_count=roots.held,
            paths=roots.paths,
            read_at=roots.read_at,
            expected=SnapshotCounts(*roots.history.expected),
            read=SnapshotCounts(len(ids), sum(1 for commit in ids if roots.metaranges.get(commit))),
            final=roots.final,
            protect=roots.protect,
            protected_paths=roots.protected,
            editor=roots.history.editor,
        )

    def place(self, run_id: str) -> tuple[str, str]:
        return self.storage.url, f"{self.format.prefix}_reclaim/runs/{run_id}/"

    def clean(self) -> None:
        leftovers.release(self._workspace)
        cleaner.clean(self._workspace.database, self.clock, self.uid)

    @contextmanager
    def lock(self, run_id: str) -> Iterator[HeldRepository]:
        with locks.hold(self._workspace, run_id) as lock:
            yield HeldRepository(self._workspace, lock)

    def lock_state(self) -> LockState | None:
        return locks.find_state(self._workspace)

    def release_lock(self, seen: LockState) -> datetime:
        return locks.release(self._workspace, seen)

    def taken(self, run_id: str) -> Mapping[SnapshotId, Mapping[str, str]]:
        taken = undoing.taken(self._workspace, run_id)
        return {
            commit_id: {METARANGE: commit.metarange} if commit.metarange else {}
            for commit_id, commit in taken.items()
        }

    def promised(self, runs: Collection[str]) -> Mapping[str, Mapping[str, Collection[str]]]:
        metaranges = promised.find_metaranges(self._workspace, runs)
        return {run_id: {METARANGE: addresses} for run_id, addresses in metaranges.items()}

    def keep_parents(self, seen: Observation, *, besides: str) -> Observation:
        standing = promised.find_parents(self._workspace, besides=besides)
        return replace(seen, promised=seen.ids.intersection(standing))

    def find_released(self, ids: Collection[SnapshotId]) -> Collection[SnapshotId]:
        return promised.find_released(self._workspace, ids)

    def record_plan(self, run_id: str, digest: str) -> None:
        records.record_plan(self._workspace, run_id, digest)

    def recorded_plan(self, run_id: str) -> str | None:
        return records.recorded_plan(self._workspace, run_id)

    def stored_policy(self) -> str | None:
        return policies.stored_policy(self._workspace)

    def store_policy(self, document: str | None) -> None:
        policies.store_policy(self._workspace, document)

    def stored_lifecycle(self) -> str | None:
        return policies.stored_lifecycle(self._workspace)

    def store_lifecycle(self, document: str | None) -> None:
        policies.store_lifecycle(self._workspace, document)

    def write_expired(
        self, destination: Storage, prefix: str, *, besides: str = "", of: str = ""
    ) -> AddressFiles:
        files = claimed_addresses.write_expired(
            self._workspace, destination, prefix, besides=besides, of=of
        )
        return AddressFiles(tuple(files), tuple(files.values()))

    def expired_by(self) -> Collection[str]:
        return claimed_addresses.promoted_runs(self._workspace)

    def count_expired(self, run_id: str) -> int:
        return claimed_addresses.count(self._workspace, run_id)

    def current_history(self) -> HistorySeen:
        return history_edit.read_history(
            self._workspace, self._workspace.default_branch, messages=True
        )

    def add_run(self, run: RunRecord) -> None:
        records.add(self._workspace, run)

    def find_run(self, run_id: str) -> RunRecord | None:
        return records.find(self._workspace, run_id)

    def runs(self) -> Sequence[RunRecord]:
        return records.all_runs(self._workspace)

    def leases(self) -> Sequence[tuple[Lease, bool]]:
        return leases.list_with_validity(self._workspace)

    def take_lease(self, snapshot: str, *, holder: str, length: timedelta) -> Lease:
        """Take a lease on a commit, given by its id or a ref."""
        return leases.take(self._workspace, snapshot, holder=holder, length=length)

    def renew_lease(self, lease: Lease) -> Lease:
        work = self._workspace
        return leases.renew(work.database, work.clock, self.uid, lease.id)

    def release_lease(self, lease_id: str) -> None:
        leases.release(self._workspace.database, self.uid, lease_id)

    def online_deletes(self) -> OnlineDeletes:
        """Totals of the reaper, and its backlog."""
        work = self._workspace
        with work.database.read() as connection:
            now = work.database.now(connection, work.clock)
            waiting = read_backlog(connection, self.uid, to_micros(now))
            on = read_settings(connection, self.uid).hard_delete
        return OnlineDeletes(
            on,
            waiting.objects,
            waiting.bytes,
            waiting.last_at,
            waiting.due,
            waiting.oldest,
            on and waiting.is_late(now),
        )

    # Checks

    def find_expired(self, addresses: Collection[str]) -> Collection[str]:
        """Return those addresses whose bytes were deleted by lifecycle rules."""
        with self._workspace.database.read() as connection:
            return claims.find_expired(connection, addresses)

    def staged(self) -> Iterator[Mapping[str, Any]]:
        """Current staged entries of objects in the repository."""
        return observing.staged(self._workspace)

    def findings(self, *, deep: bool, advance: Advance | None) -> Iterator[Finding]:
        return CatalogExamination(self, deep=deep, advance=advance).findings()

    def unknown_guards(self) -> list[str]:
        return unknown_partitions(self)

    def old_uploads(self) -> list[Upload]:
        return old_uploads(self)

    def abort_uploads(self, uploads: Sequence[Upload]) -> int:
        return abort_uploads(self, uploads)
