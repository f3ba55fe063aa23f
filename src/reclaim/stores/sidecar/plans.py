"""Digests of plans, recorded as objects beside a store, apart from the plans."""

from __future__ import annotations

from reclaim.clock import Clock
from reclaim.errors import NotFound
from reclaim.safety import SAFETY
from reclaim.storage import Storage

KEPT = SAFETY.plan_digests


class PlanDigests:
    """Digests of a store's plans, each in an object named like the run."""

    def __init__(self, storage: Storage, prefix: str, clock: Clock) -> None:
        self._storage = storage
        self._prefix = prefix
        self._clock = clock

    def record(self, run_id: str, digest: str) -> None:
        """Record a digest, and remove digests of plans past retention."""
        self._storage.put(self._prefix + run_id, digest.encode())
        oldest = self._clock.now() - KEPT
        for stored in list(self._storage.list(self._prefix.rstrip("/"))):
            if stored.last_modified < oldest:
                self._storage.delete(stored.address)

    def find(self, run_id: str) -> str | None:
        try:
            return self._storage.get(self._prefix + run_id).decode(errors="replace")
        except NotFound:
            return None
