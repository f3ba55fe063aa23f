"""Observation of a repository, in the order of the algorithm: files first, then references."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain

import pyarrow as pa

from reclaim.clock import Clock
from reclaim.errors import Conflict, Corrupt, NotFound, ReclaimError, Refused
from reclaim.model import Lease, Snapshot, SnapshotId
from reclaim.run_record import Phase
from reclaim.safety import SAFETY
from reclaim.storage import Storage, hashed_files
from reclaim.stores.format import Reader
from reclaim.stores.icechunk import history as histories
from reclaim.stores.icechunk.addresses import OVERWRITTEN, REPO, SNAPSHOTS, TRANSACTIONS
from reclaim.stores.icechunk.backups import Backups
from reclaim.stores.icechunk.driver_reader import DriverReader
from reclaim.stores.icechunk.edit_records import EditRecord, EditRecords
from reclaim.stores.icechunk.format import SNAPSHOT, TRANSACTION, IcechunkFormat
from reclaim.stores.icechunk.history import IcechunkHistoryRead, RepositoryHistory
from reclaim.stores.icechunk.repo_document import RepoEntry
from reclaim.stores.icechunk.repo_file import Availability, RepoFile, decode_repo
from reclaim.stores.icechunk.withdrawn import WithdrawnSnapshots
from reclaim.stores.observation import (
    Margins,
    Observation,
    ObserveRequest,
    SnapshotCounts,
    Survey,
    YoungSnapshots,
)
from reclaim.stores.sidecar.condemned import Condemnation
from reclaim.stores.sidecar.sidecar import Sidecar

NAMED_BY_SNAPSHOT = 2
"""Containers named by each snapshot: its file and its transaction log."""
NOT_IN_HISTORY = "(not in the history)"
"""Placeholder for the message of an unlisted snapshot."""
ENDED = (Phase.UNDONE, Phase.PURGED)
_HELD = pa.schema([pa.field("address", pa.string(), nullable=False)])


@dataclass(slots=True)
class IcechunkObserver:
    """Observer of a repository."""

    storage: Storage
    format: IcechunkFormat
    sidecar: Sidecar
    withdrawn: WithdrawnSnapshots
    edits: EditRecords
    clock: Clock
    collects_backups: bool = False
    """Whether old backups may be deleted, so that the needed backups must be determined."""
    last_reached: frozenset[SnapshotId] = frozenset()
    """Snapshots reached in the last observation."""

    def check(self) -> None:
        """Refuse a missing repository, or a repository not to be changed now."""
        if self.format.spec == 1:
            self._check_spec()
            self._check_repo_is_not_lost()
            if not histories.read_refs(self.storage, self.format.prefix):
                raise self._absent()
            return
        repo = self.read_repo()
        if repo.availability is not Availability.ONLINE:
            status = repo.availability.name.lower().replace("_", " ")
            reason = repo.reason or "no reason is given"
            raise Refused(
                f"the repository {self.format.name} is {status}: {reason}",
                hint="set its status to online first; nothing was deleted",
            )

    def read_repo(self) -> RepoFile:
        """Current file ``repo``."""
        address = f"{self.format.prefix}{REPO}"
        try:
            return decode_repo(self.storage.get(address), address)
        except NotFound as error:
            raise self._absent() from error

    def is_there(self, snapshot: SnapshotId) -> bool:
        """Whether a snapshot can be referenced."""
        if self.format.spec > 1:
            return any(info.id == snapshot for info in self.read_repo().snapshots)
        try:
            self.storage.head(self.format.address(SNAPSHOTS, snapshot))
        except NotFound:
            return False
        return True

    def read_history(self, survey: Survey, reader: Reader) -> RepositoryHistory:
        """Current history; ``survey`` contains the files present before."""
        if self.format.spec == 1:
            refs = histories.read_refs(self.storage, self.format.prefix)
            self._check_spec()
            if not refs:
                raise self._absent()
            # Snapshots written and released while refs were read are known by name.
            named = [SnapshotId(id) for id in self.format.ids_in(self.storage, SNAPSHOTS)]
            return histories.of_files(refs, survey.rows, named, self.format, reader)
        return histories.of_repo(self.read_repo())

    def referred_to(self, reader: Reader) -> frozenset[SnapshotId]:
        """Snapshots reached from refs, leases and young snapshots, including removed snapshots."""
        survey = self.survey(reader)
        if self.format.spec == 1:
            refs = histories.read_refs(self.storage, self.format.prefix)
            parents = histories.parents_in(survey.rows)
        else:
            history = histories.of_repo(self.read_repo())
            refs = history.refs
            parents = {snapshot.id: snapshot.parents for snapshot in history.snapshots.values()}
        cutoff = survey.started_at - Margins().objects
        young = _young(modified := _modified(survey), modified, cutoff)
        leases = self.sidecar.leases.valid(self.clock.now())
        tips = {*(ref.snapshot for ref in refs), *(lease.snapshot for lease in leases), *young}
        return frozenset(histories.reached_from(tips, parents))

    def logs_of(self, taken: Collection[SnapshotId]) -> set[str]:
        """Transaction logs needed by removed snapshots once restored: their own logs, and logs of
        ancestors pruned from them or from their ancestors.
        """
        if not taken or self.format.spec == 1:
            return set(taken)
        withdrawn = self.withdrawn.read()
        listed = {SnapshotId(info.id): info for info in self.read_repo().snapshots}
        logs: set[str] = set(taken)
        passed: set[SnapshotId] = set()
        for snapshot in taken:
            at: SnapshotId | None = snapshot
            while at is not None and at not in passed:
                passed.add(at)
                if at in withdrawn:
                    logs.update(withdrawn[at].entry.pruned())
                    at = withdrawn[at].entry.parent
                elif at in listed:
                    logs.update(listed[at].pruned)
                    at = SnapshotId(parent) if (parent := listed[at].parent) else None
                else:
                    at = None
        return logs

    def current_history(self) -> IcechunkHistoryRead:
        """Current history, read in this process."""
        read = self._current().read()
        ids = {snapshot.id for snapshot in read.snapshots}
        returned = tuple(
            lease
            for lease in self.sidecar.leases.valid(self.clock.now())
            if lease.undone_run is not None and lease.snapshot in ids
        )
        return replace(read, returned=returned, editor=self._editor())

    def _current(self) -> RepositoryHistory:
        if self.format.spec > 1:
            return histories.of_repo(self.read_repo())
        started_at = self.clock.now()
        ranges = list(self.format.ranges_of(SNAPSHOTS))
        survey = Survey(self.format.survey_commits(self.storage, ranges), started_at)
        return self.read_history(survey, DriverReader(self.storage))

    def survey(self, reader: Reader) -> Survey:
        started_at = self.clock.now()
        return Survey(
            reader.survey(self.format, list(self.format.ranges_of(SNAPSHOTS))), started_at
        )

    def observe(self, request: ObserveRequest) -> Observation:
        survey = request.survey or self.survey(request.reader)
        history = self.read_history(survey, request.reader)
        read_at = self.clock.now()
        leases = self.sidecar.leases.valid(read_at)
        lists = self.sidecar.lists
        states, taken = lists.states(), lists.taken_by_each().values()
        modified = _modified(survey)
        removed = self._removed(history, states, modified)
        withdrawn = _as_snapshots(removed, history)
        unlisted = self._unlisted(history, modified, {*withdrawn, *chain.from_iterable(taken)})
        snapshots = {**history.snapshots, **withdrawn, **unlisted}
        young = _young(snapshots, modified, survey.started_at - request.margin)
        self._check_young(young, history)
        reached = history.reached(
            [
                *(ref.snapshot for ref in history.refs),
                *(lease.snapshot for lease in leases),
                *young,
            ]
        )
        self.last_reached = frozenset(reached)
        pruned = [log for id in sorted(reached) for log in history.pruned.get(id, ())]
        pruned += [log for id in sorted(removed) for log in removed[id].pruned()]
        needed = [self.format.address(TRANSACTIONS, ancestor) for ancestor in pruned]
        needed += self._needed_backups(settled=request.settled)
        held = self._write_held(request, needed)
        logs = frozenset(map(SnapshotId, pruned))
        everything = sorted({*snapshots, *states})
        expected = history.count
        if self.format.spec > 1:
            expected += len(withdrawn) + len(unlisted)
        read = len(snapshots)
        snapshots = _without_condemned(snapshots, states, reached)
        return Observation(
            refs=tuple(history.refs),
            ids=frozenset(snapshots),
            snapshots=tuple(snapshots.values()),
            leases=leases,
            busy=frozenset(),
            containers={
                SNAPSHOT: {id: self.format.address(SNAPSHOTS, id) for id in everything},
                # The log of an expired snapshot may be needed by its descendants.
                TRANSACTION: {
                    id: self.format.address(TRANSACTIONS, id)
                    for id in everything
                    if id in reached or id not in logs
                },
            },
            marked={id: state.value for id, state in states.items()},
            closed=frozenset(),
            open=frozenset(),
            held=held,
            held_count=len(needed),
            read_at=read_at,
            expected=SnapshotCounts(expected, NAMED_BY_SNAPSHOT * expected),
            read=SnapshotCounts(read, NAMED_BY_SNAPSHOT * read),
            unreadable=frozenset(history.faults),
            too_young=frozenset(young),
            young=self._only_young(history, leases, young, modified),
            editor=self._editor(),
            warnings=() if request.settled else self._notes(read_at - request.margin),
        )

    def _removed(
        self,
        history: RepositoryHistory,
        states: Mapping[SnapshotId, Condemnation],
        modified: Mapping[SnapshotId, datetime],
    ) -> dict[SnapshotId, RepoEntry]:
        """Snapshots removed from ``repo`` by a run, or by the library for a run, to be put back if
        the run ended here.
        """
        if self.format.spec == 1:
            return {}
        provisional = {id for id, state in states.items() if state is Condemnation.PROVISIONAL}
        return {
            id: removed.entry
            for id, removed in self.withdrawn.read().items()
            if id not in history.snapshots
            and (id in provisional or (removed.pending and id not in states and id in modified))
        }

    def _editor(self) -> str | None:
        """Run whose own edit of the history may still be reverted."""
        return next(iter(self.unfinished_edits()), None) if self.format.spec > 1 else None

    def unfinished_edits(self) -> dict[str, EditRecord]:
        """Edits of runs which have condemned nothing yet, or died before they did.

        Edits by the library are excluded: the run may promise the snapshots released by them.
        """
        unfinished = {run_id: self.edits.read(run_id) for run_id in self._unfinished_editors()}
        return {
            run_id: record
            for run_id, record in unfinished.items()
            if record is not None and not record.by_library
        }

    def _unfinished_editors(self) -> list[str]:
        return [run_id for run_id in self.edits.runs() if self._is_unfinished(run_id)]

    def ended_edits(self) -> list[str]:
        """Runs whose edits can no longer be undone, or which ended long ago."""
        runs = {run_id: self.sidecar.records.find(run_id) for run_id in self.edits.runs()}
        long_ago = self.clock.now() - SAFETY.records
        return [
            run_id
            for run_id, run in runs.items()
            if run is not None
            and run.quarantine is None
            and (run.phase in ENDED or (run.phase == Phase.DONE and run.started_at < long_ago))
        ]

    def _is_unfinished(self, run_id: str) -> bool:
        run = self.sidecar.records.find(run_id)
        if run is None:
            return True
        return run.is_provisional and not self.sidecar.lists.taken_by(run_id)

    def _unlisted(
        self,
        history: RepositoryHistory,
        modified: Mapping[SnapshotId, datetime],
        others: Collection[SnapshotId],
    ) -> dict[SnapshotId, Snapshot]:
        """Snapshots outside any history with an existing file.

        In spec 1 they are unreadable; in spec 2 ``repo`` does not list them, because their commit
        is unfinished or was abandoned. Snapshots removed by runs are in ``others``.
        """
        files = history.faults if self.format.spec == 1 else modified
        now = self.clock.now()
        return {
            id: Snapshot(id, (), modified.get(id, now), message=NOT_IN_HISTORY)
            for id in files
            if id not in history.snapshots and (self.format.spec == 1 or id not in others)
        }

    def _check_spec(self) -> None:
        """Refuse a repository upgraded since it was opened."""
        try:
            self.storage.head(f"{self.format.prefix}{REPO}")
        except NotFound:
            return
        raise Conflict(
            f"the repository {self.format.name} was upgraded to spec 2 in the meantime",
            hint="run it again; make a new plan",
        )

    def _check_repo_is_not_lost(self) -> None:
        """Refuse a repository of spec 2 without ``repo``: refs of spec 1 left by the upgrade miss
        all later commits.
        """
        backups = self.storage.list(f"{self.format.prefix}{OVERWRITTEN}")
        if backup := next(iter(backups), None):
            raise Refused(
                f"the repository {self.format.name} has no file {REPO}, but a copy of it in "
                f"{backup.address}",
                hint=f"put the newest copy in {OVERWRITTEN}/ back as {REPO}; nothing was deleted",
            )

    def _check_young(self, young: Collection[SnapshotId], history: RepositoryHistory) -> None:
        """Refuse to continue if a protected snapshot is unreadable, because its dependencies are
        unknown.
        """
        if damaged := sorted(history.faults.keys() & set(young)):
            raise Corrupt(
                f"the snapshot {damaged[0]} is young and cannot be read: "
                f"{history.faults[damaged[0]]}",
                hint="if no writer needs it, remove its file; nothing was deleted",
            )

    def _needed_backups(self, *, settled: bool) -> list[str]:
        """Backups needed by the operations log, if other backups may be deleted.

        A plan relies on the apply, which reduces the backups needed by the log before it reads the
        roots.
        """
        if not self.collects_backups:
            return []
        backups = Backups(self.storage, self.format)
        return sorted(backups.needed(self.read_repo(), rotated=not settled))

    def _notes(self, cutoff: datetime) -> tuple[str, ...]:
        """Sentence on old backups, unless they are in the plan."""
        if self.format.spec == 1 or self.collects_backups:
            return ()
        backups = Backups(self.storage, self.format)
        try:
            count, size = backups.old(backups.needed(self.read_repo(), rotated=True), cutoff)
        except ReclaimError:
            # This is only a note; collecting backups reports the error.
            return ()
        if not count:
            return ()
        return (
            f"{count} old copies of repo in {OVERWRITTEN}/ ({size} bytes) are not needed: "
            "--old-backups deletes them",
        )

    def _write_held(self, request: ObserveRequest, addresses: Collection[str]) -> tuple[str, ...]:
        """Write the addresses needed besides the snapshots' own objects: logs and backups."""
        if not addresses:
            return ()
        rows = pa.table([pa.array(list(addresses), pa.string())], schema=_HELD)
        file, _ = hashed_files.write(request.destination, f"{request.prefix}held/needed", rows)
        return (file,)

    def _only_young(
        self,
        history: RepositoryHistory,
        leases: Collection[Lease],
        young: Collection[SnapshotId],
        modified: Mapping[SnapshotId, datetime],
    ) -> YoungSnapshots | None:
        """Snapshots kept only by their age."""
        named = history.reached(
            [*(ref.snapshot for ref in history.refs), *(lease.snapshot for lease in leases)]
        )
        times = [modified[id] for id in young if id not in named and id in modified]
        return YoungSnapshots(len(times), min(times), max(times)) if times else None

    def _absent(self) -> NotFound:
        return NotFound(
            f"there is no Icechunk repository at {self.format.root}/{self.format.name}",
            hint="name the folder or prefix of the repository",
        )


def _as_snapshots(
    removed: Mapping[SnapshotId, RepoEntry], history: RepositoryHistory
) -> dict[SnapshotId, Snapshot]:
    return {
        id: entry.snapshot(id, lambda parent: parent in removed or parent in history.snapshots)
        for id, entry in removed.items()
    }


def _modified(survey: Survey) -> dict[SnapshotId, datetime]:
    """Time of writing of each snapshot file, by the storage's clock."""
    rows = survey.rows.select(["id", "last_modified"]).to_pylist()
    return {SnapshotId(row["id"]): row["last_modified"] for row in rows if row["id"] is not None}


def _without_condemned(
    snapshots: Mapping[SnapshotId, Snapshot],
    states: Mapping[SnapshotId, Condemnation],
    reached: Collection[SnapshotId],
) -> dict[SnapshotId, Snapshot]:
    """Exclude condemned snapshots, unless they are reached.

    In spec 1 their files are unchanged; they are not judged again.
    """
    judged = {
        id: snapshot
        for id, snapshot in snapshots.items()
        if states.get(id) is not Condemnation.CONDEMNED or id in reached
    }
    return {
        id: snapshot
        if judged.keys() >= set(snapshot.parents)
        else replace(snapshot, parents=tuple(at for at in snapshot.parents if at in judged))
        for id, snapshot in judged.items()
    }


def _young(
    snapshots: Collection[SnapshotId], modified: Mapping[SnapshotId, datetime], cutoff: datetime
) -> set[SnapshotId]:
    """Snapshots with files not older than the cutoff, or newer than the listing."""
    return {id for id in snapshots if id not in modified or modified[id] >= cutoff}
