"""Sidecar of a store: lock, leases, condemned lists, records of runs and policy, in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime

from reclaim.clock import Clock
from reclaim.errors import Conflict
from reclaim.ids import new_uid
from reclaim.lock import LockState
from reclaim.storage import Storage
from reclaim.stores.sidecar import lock as locking
from reclaim.stores.sidecar.condemned import CondemnedLists
from reclaim.stores.sidecar.held import HeldSidecar
from reclaim.stores.sidecar.leases import SidecarLeases
from reclaim.stores.sidecar.lock import SidecarLock
from reclaim.stores.sidecar.plans import PlanDigests
from reclaim.stores.sidecar.policy import PolicyFile
from reclaim.stores.sidecar.records import Records


class Sidecar:
    """Files beside a store, below a prefix of its storage.

    ``records`` may be kept in another view of the same storage, together with plans.
    """

    def __init__(
        self, storage: Storage, prefix: str, clock: Clock, *, runs: Storage | None = None
    ) -> None:
        self.prefix = prefix
        self.lists = CondemnedLists(storage, f"{prefix}condemned/")
        self.leases = SidecarLeases(storage, f"{prefix}leases/", clock, self.lists)
        self.records = Records(runs or storage, f"{prefix}runs/")
        self.plans = PlanDigests(storage, f"{prefix}plans/", clock)
        self.policy = PolicyFile(storage, prefix)
        self._storage = storage
        self._clock = clock

    @contextmanager
    def lock(self, run_id: str) -> Iterator[SidecarLock]:
        """Exclude every other run of the store."""
        with locking.hold(self._storage, f"{self.prefix}lock/", self._clock, run_id) as lock:
            yield lock

    def lock_state(self) -> LockState | None:
        return self._lock_of("").state()

    def release_lock(self, seen: LockState) -> datetime:
        return self._lock_of(seen.run).release(seen)

    def _lock_of(self, run_id: str) -> SidecarLock:
        return SidecarLock(self._storage, f"{self.prefix}lock/", self._clock, run_id)

    def hold(self, lock: SidecarLock) -> HeldSidecar:
        return HeldSidecar(lock, self.lists, self.records, self.leases)

    def clean(self) -> None:
        """Release the provisional entries of dead runs, unless a run is active."""
        if self.lists.any_provisional():
            with suppress(Conflict), self.lock(new_uid()) as lock:
                self.hold(lock).begin()

    def run_folder(self, run_id: str) -> str:
        return f"{self.prefix}runs/{run_id}/"
