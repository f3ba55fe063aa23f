"""Common part of stores with a sidecar: records, plans, policy and leases."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from reclaim.lock import LockState
from reclaim.model import Lease
from reclaim.run_record import RunRecord
from reclaim.stores.base import Store
from reclaim.stores.sidecar.sidecar import Sidecar


class SidecarStore(Store):
    """Implementation of the store methods backed by the sidecar."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar = sidecar

    def lock_state(self) -> LockState | None:
        return self._sidecar.lock_state()

    def release_lock(self, seen: LockState) -> datetime:
        return self._sidecar.release_lock(seen)

    # Records

    def place(self, run_id: str) -> tuple[str, str]:
        return self.storage.url, self._sidecar.run_folder(run_id)

    def record_plan(self, run_id: str, digest: str) -> None:
        self._sidecar.plans.record(run_id, digest)

    def recorded_plan(self, run_id: str) -> str | None:
        return self._sidecar.plans.find(run_id)

    def add_run(self, run: RunRecord) -> None:
        self._sidecar.records.start(run)

    def find_run(self, run_id: str) -> RunRecord | None:
        return self._sidecar.records.find(run_id)

    def runs(self) -> Sequence[RunRecord]:
        return self._sidecar.records.all()

    # The policy

    def stored_policy(self) -> str | None:
        return self._sidecar.policy.read()

    def store_policy(self, document: str | None) -> None:
        self._sidecar.policy.write(document)

    # Leases

    def renew_lease(self, lease: Lease) -> Lease:
        return self._sidecar.leases.renew(lease)

    def release_lease(self, lease_id: str) -> None:
        self._sidecar.leases.release(lease_id)

    def leases(self) -> list[tuple[Lease, bool]]:
        now = self.clock.now()
        return [(lease, lease.valid_at(now)) for lease in self._sidecar.leases.all()]
