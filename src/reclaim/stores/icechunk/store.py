"""An Icechunk repository as the runs see it, and how ``icechunk:LOCATION`` is opened."""

from __future__ import annotations

from contextlib import AbstractContextManager
from urllib.parse import unquote

from reclaim.clock import Clock, SystemClock
from reclaim.errors import InvalidInput, NotFound, Refused
from reclaim.storage import ObjectStorage, Storage
from reclaim.stores.icechunk.addresses import OURS, REPO
from reclaim.stores.icechunk.format import IcechunkFormat
from reclaim.stores.icechunk.observing import Observer
from reclaim.stores.observation import Observation, ObserveRequest
from reclaim.stores.sidecar.held import HeldSidecar
from reclaim.stores.sidecar.sidecar import Sidecar
from reclaim.stores.sidecar.store import SidecarStore
from reclaim.urls import normalize

SAFETY_BASIS = (
    "Branches, tags and snapshots were read after the objects were listed. A commit in the making "
    "is protected by the margin alone, and so is what a snapshot that nothing refers to yet uses."
)


class IcechunkStore(SidecarStore):
    """One repository."""

    kind = "icechunk"
    noun = "snapshot"
    exact = False
    deleted = False
    quarantine_by_default = True
    safety_basis = SAFETY_BASIS
    handle = HeldSidecar

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
        sidecar = Sidecar(self.storage, f"{self.format.prefix}{OURS}/", self.clock)
        super().__init__(sidecar)
        self._observer = Observer(self.storage, self.format, sidecar, self.clock)

    def check(self) -> None:
        self._observer.check()

    def observe(self, request: ObserveRequest) -> Observation:
        return self._observer.observe(request)

    def lock(self, run_id: str) -> AbstractContextManager[HeldSidecar]:
        raise Refused(
            f"the repository {self.name} can be planned for and not collected yet: run {run_id} "
            "has changed nothing",
            hint="look at the plan with `reclaim show`; let Icechunk's own library collect",
        )


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
