"""The interface of every store.

A store has two halves. The *format* knows names and files, and goes to the executors (``format``).
The *store* itself stays on the driver: it observes the roots (``observation``) and gives, with its
lock, the handle by which it can be changed. What only some can do is in ``abilities``.
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
    """The lock of a store, while it is held."""

    @property
    def used(self) -> bool:
        """Whether tasks have worked on the strength of it."""
        ...

    @property
    def free_at(self) -> datetime | None:
        """When it is free if its holder ends now; None for at once."""
        ...

    def lend(
        self, longest: timedelta, ended: Callable[[], bool]
    ) -> AbstractContextManager[timedelta]:
        """Let tasks work on the strength of it, for the time that the block is given.

        When the block fails and ``ended`` does not know that all of them have ended, the lock is
        not given back before their time is over.
        """
        ...

    def remaining(self) -> timedelta: ...

    def check(self) -> None: ...

    def renew(self) -> None: ...


class Held(Declared, ABC):
    """A store whose lock a run holds: the only object that can change the store."""

    lock: HeldLock

    @abstractmethod
    def begin(self) -> None:
        """Take back what a run that died left, and note that this one works here now."""

    @abstractmethod
    def condemn(self, rules: Mapping[SnapshotId, str]) -> int:
        """Condemn snapshots provisionally, with the rule that takes each; returns how many.

        One that a ref or a valid lease names is left alone: it came back to life.
        """

    @abstractmethod
    def release(self, ids: Collection[SnapshotId]) -> None:
        """Take back what was provisional, of snapshots that are live after all."""

    @abstractmethod
    def promote(self) -> int:
        """Make what is provisional terminal, all at once."""

    @abstractmethod
    def abandon(self) -> None:
        """Take back what is provisional, of a run that stops before it has condemned anything."""

    @abstractmethod
    def collect(self, ids: Collection[SnapshotId]) -> int:
        """Remove snapshots that are condemned and whose objects are gone."""

    @abstractmethod
    def start(self, run: RunRecord) -> None:
        """Record that a run has started; one that was started before goes on."""

    @abstractmethod
    def finish(self, run: RunRecord) -> None:
        """Record how far a run came, if it was started."""


class Store(Declared, ABC):
    """A store that can be observed and, by whoever holds its lock, collected."""

    kind: str
    """The scheme by which it is registered; ``catalog`` for our own."""
    name: str
    uid: str
    """The name that no other store has: of one with a scheme, the URL of its location."""
    noun: str
    """The store's own word for a snapshot."""
    deleted: bool
    """Whether the store itself is gone, so that nothing of it needs to stay."""
    exact: bool
    """Whether all references are known; otherwise the margins protect what is live."""
    safety_basis: str
    """The sentence that says why nothing live is taken: exact references, or a margin."""
    quarantine_by_default: bool
    """Whether objects are set aside unless one asks to delete them at once."""
    storage: Storage
    format: Format
    clock: Clock

    @property
    @abstractmethod
    def handle(self) -> type[Held]:
        """The class of its held handle: tells what a run could do before it has the lock."""

    @abstractmethod
    def check(self) -> None:
        """Refuse what must not be collected: other versions, a storage ahead of the database."""

    @abstractmethod
    def observe(self, request: ObserveRequest) -> Observation:
        """Read all roots, in one consistent read where the store allows that."""

    @abstractmethod
    def place(self, run_id: str) -> tuple[str, str]:
        """Where a run's plan goes by default: (URL of a storage, prefix in it)."""

    @abstractmethod
    def lock(self, run_id: str) -> AbstractContextManager[Held]:
        """Exclude every other apply, undo and purge of the store, and be able to change it."""

    @abstractmethod
    def lock_state(self) -> LockState | None:
        """The lock, if a run holds it or its tasks may still be at work."""

    @abstractmethod
    def release_lock(self, seen: LockState) -> datetime:
        """Let the lock of a holder that has ended expire now; returns when it is free.

        Refused while the holder, or work that it has ordered, may still go on; a ``Conflict`` if
        the lock is not the one that was ``seen`` any more.
        """

    @abstractmethod
    def record_plan(self, run_id: str, digest: str) -> None:
        """Record what a plan hashes to, where who can write its files alone cannot change it.

        It is the one thing that a plan writes outside its place. It is kept for as long as the
        files of plans are.
        """

    @abstractmethod
    def recorded_plan(self, run_id: str) -> str | None:
        """The digest of a plan, from when it was made; None when not recorded, or long ago."""

    @abstractmethod
    def add_run(self, run: RunRecord) -> None:
        """Record a run that ended and changed nothing; it needs no lock."""

    @abstractmethod
    def find_run(self, run_id: str) -> RunRecord | None: ...

    @abstractmethod
    def runs(self) -> Sequence[RunRecord]:
        """All of them, the newest first."""

    @abstractmethod
    def clean(self) -> None:
        """Remove old rows, and what runs left that died; the latter only while no run holds the
        lock."""

    @abstractmethod
    def leases(self) -> Sequence[tuple[Lease, bool]]:
        """All leases, and whether each is valid."""

    @abstractmethod
    def stored_policy(self) -> str | None:
        """The policy of retention, a text as it was stored; None only if none was.

        A text that cannot be read is an error; ``policy.stored`` says what is in it.
        """

    @abstractmethod
    def store_policy(self, document: str | None) -> None:
        """Store a text in place of the one that there is, whole or not at all; None removes it."""
