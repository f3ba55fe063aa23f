"""Interface of every store.

A store has two halves. The *format* knows names and files, and is sent to the executors
(``format``). The *store* stays on the driver: it observes the roots (``observation``) and, under
its lock, returns the handle for changes. Optional abilities are in ``abilities``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Protocol

from reclaim.clock import Clock
from reclaim.lock import LockState
from reclaim.model import Lease, SnapshotId
from reclaim.run_record import RunRecord
from reclaim.storage import Storage
from reclaim.stores.declared import Declared
from reclaim.stores.format import Format
from reclaim.stores.observation import Observation, ObserveRequest


class HeldLock(Protocol):
    """Lock of a store while it is held."""

    @property
    def used(self) -> bool:
        """Whether tasks have run under this lock."""
        ...

    @property
    def free_at(self) -> datetime | None:
        """Time at which the lock is free if its holder ends now; None for at once."""
        ...

    def lend(
        self, longest: timedelta, ended: Callable[[], bool]
    ) -> AbstractContextManager[timedelta]:
        """Let tasks run under the lock for the duration given to the block.

        If the block fails and ``ended`` cannot confirm the end of all tasks, the lock is released
        only after that duration.
        """
        ...

    def remaining(self) -> timedelta: ...

    def check(self) -> None: ...

    def renew(self) -> None: ...


class Held(Declared, ABC):
    """A store whose lock is held by a run: the only object able to change the store."""

    lock: HeldLock

    @abstractmethod
    def begin(self) -> None:
        """Revert the leftovers of runs that died, and record this run as active."""

    @abstractmethod
    def condemn(self, rules: Mapping[SnapshotId, str]) -> int:
        """Condemn snapshots provisionally, each with the rule that removes it; return the count.

        A snapshot named by a ref or a valid lease is skipped: it is live again.
        """

    @abstractmethod
    def release(self, ids: Collection[SnapshotId]) -> None:
        """Revert provisional states of snapshots found live after all."""

    @abstractmethod
    def promote(self) -> int:
        """Make all provisional states terminal, atomically."""

    @abstractmethod
    def abandon(self) -> None:
        """Revert the provisional states of a run stopped before it condemned anything."""

    @abstractmethod
    def collect(self, ids: Collection[SnapshotId]) -> int:
        """Remove condemned snapshots whose objects are deleted."""

    @abstractmethod
    def start(self, run: RunRecord) -> None:
        """Record the start of a run, or its continuation."""

    @abstractmethod
    def finish(self, run: RunRecord) -> None:
        """Record the progress of a run, if the run was started."""


class Store(Declared, ABC):
    """A store: can be observed and, under its lock, collected."""

    kind: str
    """Scheme under which the store is registered; ``catalog`` for repositories of the catalog."""
    name: str
    uid: str
    """Unique name of the store: for a store with a scheme, the URL of its location."""
    noun: str
    """The store's own term for a snapshot."""
    deleted: bool
    """Whether the store itself is deleted, so that none of its data is kept."""
    exact: bool
    """Whether all references are known; otherwise margins protect live data."""
    safety_basis: str
    """Sentence on the safety of deletes: exact references, or a margin."""
    quarantine_by_default: bool
    """Whether objects go to quarantine unless deletion at once is requested."""
    storage: Storage
    format: Format
    clock: Clock

    @property
    @abstractmethod
    def handle(self) -> type[Held]:
        """Class of the held handle: shows the abilities of a run before it has the lock."""

    @abstractmethod
    def check(self) -> None:
        """Refuse a store unfit for collection, such as a storage ahead of the database."""

    @abstractmethod
    def observe(self, request: ObserveRequest) -> Observation:
        """Read all roots, in one consistent read where the store allows it."""

    @abstractmethod
    def place(self, run_id: str) -> tuple[str, str]:
        """Default location of a run's plan: (URL of a storage, prefix in it)."""

    @abstractmethod
    def lock(self, run_id: str) -> AbstractContextManager[Held]:
        """Take the lock: exclude every other apply, undo and purge, and allow changes."""

    @abstractmethod
    def lock_state(self) -> LockState | None:
        """State of the lock, if a run holds it or tasks of a run may still be active."""

    @abstractmethod
    def release_lock(self, seen: LockState) -> datetime:
        """Expire the lock of a holder that has ended; return the time at which it is free.

        Refuse while the holder, or work it has started, may still be active. Raise ``Conflict`` if
        the lock is no longer the lock in ``seen``.
        """

    @abstractmethod
    def record_plan(self, run_id: str, digest: str) -> None:
        """Record the digest of a plan, out of reach of writers of its files.

        This record is a plan's only write outside its folder. It is kept as long as the files of
        plans.
        """

    @abstractmethod
    def recorded_plan(self, run_id: str) -> str | None:
        """Digest of a plan, as recorded when it was made; None if not recorded, or too old."""

    @abstractmethod
    def add_run(self, run: RunRecord) -> None:
        """Record a finished run without changes; needs no lock."""

    @abstractmethod
    def find_run(self, run_id: str) -> RunRecord | None: ...

    @abstractmethod
    def runs(self) -> Sequence[RunRecord]:
        """All runs, newest first."""

    @abstractmethod
    def clean(self) -> None:
        """Remove old rows and, while no run holds the lock, leftovers of dead runs."""

    @abstractmethod
    def leases(self) -> Sequence[tuple[Lease, bool]]:
        """All leases, and whether each is valid."""

    @abstractmethod
    def stored_policy(self) -> str | None:
        """Text of the stored retention policy; None only if none is stored.

        An unreadable text is an error; ``policy.stored`` parses it.
        """

    @abstractmethod
    def store_policy(self, document: str | None) -> None:
        """Replace the stored text atomically; None removes it."""
