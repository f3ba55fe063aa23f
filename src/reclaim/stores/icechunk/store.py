"""An Icechunk repository as the runs see it, and how ``icechunk:LOCATION`` is opened."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from urllib.parse import unquote

from reclaim.clock import Clock, SystemClock
from reclaim.errors import Conflict, Gone, InvalidInput, NotFound
from reclaim.ids import new_uid
from reclaim.model import Lease, SnapshotId
from reclaim.storage import ObjectStorage, Storage, SwapsObjects
from reclaim.stores.findings import Advance, Finding
from reclaim.stores.icechunk.addresses import OURS, REPO, SNAPSHOTS, TRANSACTIONS
from reclaim.stores.icechunk.examination import Examination
from reclaim.stores.icechunk.format import SNAPSHOT, TRANSACTION, IcechunkFormat
from reclaim.stores.icechunk.held import HeldIcechunk
from reclaim.stores.icechunk.object_ids import ID_LETTERS, is_id
from reclaim.stores.icechunk.observing import Observer
from reclaim.stores.icechunk.withdrawn import WithdrawnSnapshots
from reclaim.stores.observation import Observation, ObserveRequest
from reclaim.stores.sidecar.sidecar import Sidecar
from reclaim.stores.sidecar.store import SidecarStore
from reclaim.urls import normalize

SAFETY_BASIS = (
    "Branches, tags and snapshots were read after the objects were listed. A commit in the making "
    "is protected by the margin alone, and so is what a snapshot that nothing refers to yet uses."
)
IN_FILES = (
    " In spec 1 nothing keeps a writer from making a branch at a snapshot while it is collected."
)
ON_DISK = (
    " On a local disk two writers of `repo` can miss each other for a moment, as with Icechunk's "
    "own library: apply while nobody commits."
)


class IcechunkStore(SidecarStore):
    """One repository."""

    kind = "icechunk"
    noun = "snapshot"
    exact = False
    deleted = False
    quarantine_by_default = True
    handle = HeldIcechunk

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
        self.clock: Clock = clock or SystemClock()
        self.storage: Storage = storage or ObjectStorage.open(root)
        self.format = IcechunkFormat(root, self.name, _spec(self.storage, self.name))
        ours = f"{self.format.prefix}{OURS}/"
        sidecar = Sidecar(self.storage, ours, self.clock)
        super().__init__(sidecar)
        self.safety_basis = f"{SAFETY_BASIS}{self._not_promised()}"
        withdrawn = WithdrawnSnapshots(self.storage, ours)
        self._observer = Observer(self.storage, self.format, sidecar, withdrawn, self.clock)

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
    def lock(self, run_id: str) -> Iterator[HeldIcechunk]:
        with self._sidecar.lock(run_id) as lock:
            yield HeldIcechunk(lock, self._sidecar, self._observer)

    def clean(self) -> None:
        if self._sidecar.lists.any_provisional():
            with suppress(Conflict), self.lock(new_uid()) as held:
                held.begin()

    # The way back

    def taken(self, run_id: str) -> Mapping[SnapshotId, Mapping[str, str]]:
        return {
            one: {SNAPSHOT: self.format.address(SNAPSHOTS, one)}
            for one in self._sidecar.lists.taken_by(run_id)
        }

    def promised(self, runs: Collection[str]) -> Mapping[str, Mapping[str, Collection[str]]]:
        taken = {run_id: self._sidecar.lists.taken_by(run_id) for run_id in runs}
        withdrawn = self._observer.withdrawn.read()
        return {
            run_id: {
                SNAPSHOT: [self.format.address(SNAPSHOTS, one) for one in snapshots],
                TRANSACTION: [
                    self.format.address(TRANSACTIONS, log)
                    for one in snapshots
                    for log in (one, *(withdrawn[one].entry.pruned() if one in withdrawn else ()))
                ],
            }
            for run_id, snapshots in taken.items()
        }

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

    # For the doctor

    def findings(self, *, deep: bool, advance: Advance | None) -> Iterator[Finding]:
        return Examination(self._observer, self.name).findings(deep=deep, advance=advance)


def open_store(location: str) -> IcechunkStore:
    """The repository at a location."""
    return IcechunkStore(location)


def _spec(storage: Storage, name: str) -> int:
    """The version of the format: from the second on there is a file ``repo``."""
    try:
        storage.head(f"{name}/{REPO}")
    except NotFound:
        return 1
    return 2
