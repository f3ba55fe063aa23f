"""An Icechunk repository as a store, and the opener of ``icechunk:LOCATION``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from urllib.parse import unquote

from reclaim.clock import Clock, SystemClock
from reclaim.errors import Conflict, Corrupt, Gone, InvalidInput, NotFound
from reclaim.history import Edit
from reclaim.ids import new_uid
from reclaim.model import History, Lease, SnapshotId
from reclaim.storage import ObjectStorage, Storage, SwapsObjects
from reclaim.stores.abilities import (
    Examines,
    Expiration,
    ExpiresItself,
    HoldsLeases,
    KeepsBackups,
    KeepsParents,
    NeedsMoreOnceEdited,
    Quarantines,
    ReportsRereferenced,
)
from reclaim.stores.findings import Advance, Finding
from reclaim.stores.format import Reader
from reclaim.stores.icechunk.addresses import OURS, REPO, SNAPSHOTS, TRANSACTIONS
from reclaim.stores.icechunk.edit_records import EditRecords
from reclaim.stores.icechunk.examination import IcechunkExamination
from reclaim.stores.icechunk.expiration import RULES, predict_edit
from reclaim.stores.icechunk.format import SNAPSHOT, TRANSACTION, IcechunkFormat
from reclaim.stores.icechunk.held import HeldFiles
from reclaim.stores.icechunk.held_repo import HeldRepo
from reclaim.stores.icechunk.history import IcechunkHistoryRead
from reclaim.stores.icechunk.library import load_library
from reclaim.stores.icechunk.object_ids import ID_LETTERS, is_id
from reclaim.stores.icechunk.observing import IcechunkObserver
from reclaim.stores.icechunk.rereferenced import rereferenced
from reclaim.stores.icechunk.snapshot_file import SnapshotFile, decode_snapshot
from reclaim.stores.icechunk.withdrawn import WithdrawnSnapshots
from reclaim.stores.observation import Observation, ObserveRequest
from reclaim.stores.sidecar.sidecar import Sidecar
from reclaim.stores.sidecar.store import SidecarStore
from reclaim.urls import normalize

SAFETY_BASIS = (
    "Branches, tags and snapshots were read after the objects were listed. An unfinished commit "
    "is protected by the margin alone, and so are the objects of an unreferenced snapshot."
)
IN_FILES = " In spec 1 a writer can create a branch at a snapshot while it is collected."
ON_DISK = (
    " On a local disk concurrent writers of `repo` can overwrite each other, as with Icechunk's "
    "own library: apply while there are no commits."
)


IRREVERSIBLE = (
    "in spec 1 Icechunk's own library edits the history, which cannot be reverted: an undo "
    "restores snapshots and their objects, and holds them for the rest of the quarantine; it "
    "restores neither parents nor refs"
)


class IcechunkStore(
    SidecarStore,
    Examines,
    ExpiresItself,
    HoldsLeases,
    KeepsBackups,
    KeepsParents,
    NeedsMoreOnceEdited,
    Quarantines,
    ReportsRereferenced,
):
    """An Icechunk repository."""

    format: IcechunkFormat

    kind = "icechunk"
    noun = "snapshot"
    exact = False
    deleted = False
    quarantine_by_default = True

    def __init__(
        self, location: str, *, clock: Clock | None = None, storage: Storage | None = None
    ) -> None:
        self.uid = normalize(location)
        root, _, name = self.uid.rpartition("/")
        if root.endswith("/"):
            raise InvalidInput(
                f"{location} is a whole bucket or disk", hint="name the repository's folder in it"
            )
        self.name = unquote(name) if root.startswith("file:") else name
        self.clock = clock or SystemClock()
        self.storage = storage or ObjectStorage.open(root)
        self.format = IcechunkFormat(root, self.name, _spec(self.storage, self.name))
        prefix = f"{self.format.prefix}{OURS}/"
        sidecar = Sidecar(self.storage, prefix, self.clock)
        super().__init__(sidecar)
        self.safety_basis = f"{SAFETY_BASIS}{self._not_promised()}"
        self._observer = IcechunkObserver(
            self.storage,
            self.format,
            sidecar,
            WithdrawnSnapshots(self.storage, prefix),
            EditRecords(self.storage, prefix),
            self.clock,
        )

    @property
    def handle(self) -> type[HeldFiles] | type[HeldRepo]:
        return HeldFiles if self.format.spec == 1 else HeldRepo

    def _not_promised(self) -> str:
        if self.format.spec == 1:
            return IN_FILES
        swaps = isinstance(self.storage, SwapsObjects) and self.storage.swaps_atomically
        return "" if swaps else ON_DISK

    def check(self) -> None:
        self._observer.check()

    def observe(self, request: ObserveRequest) -> Observation:
        return self._observer.observe(request)

    @contextmanager
    def lock(self, run_id: str) -> Iterator[HeldFiles | HeldRepo]:
        with self._sidecar.lock(run_id) as lock:
            yield self.handle(lock, self._sidecar, self._observer)

    def clean(self) -> None:
        if (
            self._sidecar.lists.any_provisional()
            or self._observer.unfinished_edits()
            or self._observer.withdrawn.any_pending()
        ):
            with suppress(Conflict), self.lock(new_uid()) as held:
                # No plan has checked yet whether changes are allowed.
                self.check()
                held.begin()

    # History

    def expressible_rules(self) -> frozenset[str]:
        return RULES

    def predict_edit(
        self,
        history: History,
        kept: AbstractSet[SnapshotId],  # noqa: ARG002
        expiration: Expiration,
    ) -> Edit:
        return predict_edit(history, expiration, spec=self.format.spec)

    def check_library(self) -> None:
        load_library()

    def needed_once_edited(self, history: History, edit: Edit) -> Collection[str]:
        """Transaction logs of ancestors bypassed by edited snapshots, in spec 2."""
        if self.format.spec == 1:
            return ()
        passed: set[tuple[int, int | None]] = set()
        gone = set(edit.unreachable)
        for id, parents in edit.reparent.items():
            if id in gone:
                continue
            end = history.numbers[parents[0]] if parents else None
            above = history.parents[history.numbers[id]]
            while above and above[0] != end and (above[0], end) not in passed:
                passed.add((above[0], end))
                above = history.parents[above[0]]
        logs = {history.snapshots[number].id for number, _ in passed}
        return [self.format.address(TRANSACTIONS, id) for id in logs]

    def irreversible(self) -> str:
        return IRREVERSIBLE if self.format.spec == 1 else ""

    def current_history(self) -> IcechunkHistoryRead:
        self._observer.check()
        return self._observer.current_history()

    # Undo

    def taken(self, run_id: str) -> Mapping[SnapshotId, Mapping[str, str]]:
        return {
            id: {SNAPSHOT: self.format.address(SNAPSHOTS, id)}
            for id in self._sidecar.lists.taken_by(run_id)
        }

    def promised(self, runs: Collection[str]) -> Mapping[str, Mapping[str, Collection[str]]]:
        taken = {run_id: self._sidecar.lists.taken_by(run_id) for run_id in runs}
        return {
            run_id: {
                SNAPSHOT: [self.format.address(SNAPSHOTS, id) for id in snapshots],
                TRANSACTION: [
                    self.format.address(TRANSACTIONS, log)
                    for log in self._observer.logs_of(snapshots)
                ],
            }
            for run_id, snapshots in taken.items()
        }

    def needed(self, run_id: str, reader: Reader) -> Collection[str]:
        return rereferenced(self._observer, run_id, reader)

    def keep_parents(self, seen: Observation, *, besides: str) -> Observation:
        """Return an observation in which snapshots required by undoable runs are held; see
        ``KeepsParents``.
        """
        runs = [run.id for run in self.runs() if run.undoable and run.id != besides]
        return replace(seen, promised=seen.promised | (self._passed_over(runs) & seen.ids))

    def _passed_over(self, runs: Collection[str]) -> frozenset[SnapshotId]:
        """Parents of snapshots removed by runs, and snapshots bypassed by their edits."""
        taken = [id for run_id in runs for id in self._sidecar.lists.taken_by(run_id)]
        if self.format.spec == 1:
            return frozenset(self._parents_in_files(runs))
        withdrawn = self._observer.withdrawn.read() if taken else {}
        entries = (withdrawn[id].entry for id in taken if id in withdrawn)
        edits = filter(None, map(self._observer.edits.read, runs))
        return frozenset(
            (
                *(entry.parent for entry in entries if entry.parent is not None),
                *(id for edit in edits for id in edit.passed_over()),
            )
        )

    def _parents_in_files(self, runs: Collection[str]) -> Iterator[SnapshotId]:
        """Parents of snapshots removed by runs, from their files at any address."""
        for run_id in runs:
            ids = sorted(self._sidecar.lists.taken_by(run_id))
            quarantine = self.format.quarantine_path(run_id)
            with ThreadPoolExecutor(max(self.storage.at_once, 1)) as readers:
                files = list(readers.map(lambda id: self._find_taken(id, quarantine), ids))  # noqa: B023
            yield from (SnapshotId(file.parent) for file in files if file and file.parent)

    def _find_taken(self, snapshot: SnapshotId, quarantine: str) -> SnapshotFile | None:
        """Read a removed snapshot from the run's quarantine or its original address; None if it is
        unreadable, which a later check of its dependencies reports.
        """
        original = self.format.address(SNAPSHOTS, snapshot)
        for address in (f"{quarantine}{SNAPSHOTS}/{snapshot}", original):
            with suppress(NotFound, Corrupt):
                return decode_snapshot(self.storage.get(address), address)
        return None

    # Leases

    def take_lease(self, snapshot: str, *, holder: str, length: timedelta) -> Lease:
        if not is_id(snapshot):
            raise InvalidInput(
                f"{snapshot!r} is not the id of a snapshot",
                hint=f"an id has {ID_LETTERS} capital letters and digits",
            )
        return self._sidecar.leases.take(
            SnapshotId(snapshot), self._needs, holder=holder, length=length
        )

    def _needs(self, snapshot: SnapshotId) -> Collection[SnapshotId]:
        if not self._observer.is_there(snapshot):
            raise Gone(f"there is no snapshot {snapshot}", hint="see the repository's history")
        return {snapshot}

    # Backups

    def collect_backups(self) -> None:
        if self.format.spec == 1:
            raise InvalidInput(
                f"{self.name} is of spec 1, which keeps no copies of replaced files",
                hint="omit --old-backups",
            )
        self.format = replace(self.format, backups=True)
        self._observer.format = self.format
        self._observer.collects_backups = True

    # Checks

    def findings(self, *, deep: bool, advance: Advance | None) -> Iterator[Finding]:
        return IcechunkExamination(self._observer, self.name).findings(deep=deep, advance=advance)


def open_store(location: str) -> IcechunkStore:
    """Open the repository at a location."""
    return IcechunkStore(location)


def _spec(storage: Storage, name: str) -> int:
    """Version of the format: from version 2 on, a file ``repo`` exists."""
    try:
        storage.head(f"{name}/{REPO}")
    except NotFound:
        return 1
    return 2
