"""Subjects: stores under test, with ways to bypass the adapter."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Protocol, TypeVar
from unittest import SkipTest

from reclaim.engine.local.engine import LocalEngine
from reclaim.engine.tasks.parts import Opener
from reclaim.model import SnapshotId
from reclaim.storage import ObjectStorage, Payload, Storage
from reclaim.stores.base import Store
from reclaim.stores.observation import Observation, ObserveRequest
from reclaim.testing.storage import ClockedStorage, StorageWrapper
from reclaim.urls import normalize

Failure = TypeVar("Failure", bound=Exception)


class Subject(Protocol):
    """A store under test, with ways to bypass it."""

    store: Store

    def another(self) -> Store:
        """Open the same store as another user."""
        ...

    def interrupted(self, call: Callable[[], None]) -> Store:
        """Open the same store, and call a function before each of its writes to the storage.

        ``InterruptedStorage`` does this. If a lease is written to a database, the call comes before
        ``take_lease``.
        """
        ...

    def objects(self) -> set[str]:
        """Return every object a collection may judge, listed in the storage itself."""
        ...

    def live(self) -> SnapshotId:
        """Make a snapshot named by a ref."""
        ...

    def live_otherwise(self) -> Mapping[str, SnapshotId]:
        """Make a live snapshot for each other kind of reference in the store, by name.

        ``branch``: the tip of a branch other than the default. ``tag``: named only by a tag.
        ``merge``: reachable only as the second parent of a merge. Empty if there is no other kind.
        """
        ...

    def dead(self) -> SnapshotId:
        """Make an unreachable snapshot."""
        ...

    def dead_pair(self) -> tuple[SnapshotId, SnapshotId]:
        """Make two unreachable snapshots, the first the parent of the second and ten days older.
        Each has an object no other snapshot needs."""
        ...

    def needs(self, snapshot: SnapshotId) -> Mapping[str, str]:
        """Return every address a snapshot needs, with the kind of a container or "data"."""
        ...

    def swept(self, snapshot: SnapshotId) -> None:
        """Remove the objects of a dead snapshot, if the snapshot exists as long as they do."""
        ...

    def usable(self, snapshot: SnapshotId) -> bool:
        """Return whether a ref can be made at a snapshot; the ref is removed at once."""
        ...

    def staged(self) -> str | None:
        """Add a staged object that is in no snapshot. Return its address, or None without
        staging."""
        ...

    def uploading(self) -> str | None:
        """Write unreferenced bytes, like a writer in the middle of its work."""
        ...

    def lose(self, snapshot: SnapshotId) -> None:
        """Remove an object from the storage without which a snapshot is unusable."""
        ...

    def shorten(self) -> bool:
        """Remove a snapshot from reads, without changing the number of snapshots.

        Return False if the store cannot have this fault.
        """
        ...

    def age(self) -> None:
        """Let time pass until no margin protects existing objects."""
        ...

    def wait(self, time: timedelta) -> None:
        """Let some time pass."""
        ...


class LeasingSubject(Subject, Protocol):
    """For the duties of every store towards leases, whoever takes them."""

    def hold(self, snapshot: SnapshotId, length: timedelta) -> str:
        """Take a lease on a snapshot as users do. Return its id."""
        ...


class HistorySubject(Subject, Protocol):
    """For ``EditsHistory`` and ``ExpiresItself``."""

    def line(self) -> Sequence[SnapshotId]:
        """Make three snapshots on the default branch, ten days apart, oldest first."""
        ...

    def tag(self, name: str, snapshot: SnapshotId) -> None: ...

    def reached(self) -> set[SnapshotId]:
        """Return the snapshots reachable from refs, by the store's own library."""
        ...


class LibrarySubject(HistorySubject, Protocol):
    """For ``ExpiresItself``."""

    def without_library(self) -> AbstractContextManager[None]:
        """Make the store's own library unavailable in the block."""
        ...


class EditedSubject(HistorySubject, Protocol):
    """For ``NeedsMoreOnceEdited``."""

    def needs_besides(self, snapshot: SnapshotId) -> Collection[str]:
        """Return the addresses a snapshot needs beside its own objects, with the current
        history."""
        ...


class BackupSubject(Subject, Protocol):
    """For ``KeepsBackups``."""

    def backups(self) -> set[str]:
        """Return the store's backups of replaced objects, if any."""
        ...

    def operations(self) -> Sequence[object]:
        """Return the operations on the store from its own library, newest first."""
        ...


class NamingSubject(Subject, Protocol):
    """For stores whose snapshots need others, or can refer to quarantined objects."""

    def name(self, snapshot: SnapshotId) -> None:
        """Make a ref at a snapshot, unconditionally."""
        ...

    def below(self, snapshot: SnapshotId) -> Collection[SnapshotId]:
        """Return the other snapshots without which a snapshot cannot be loaded."""
        ...


class GuardedSubject(Subject, Protocol):
    """For ``KeepsGuards``."""

    def overdue(self) -> str:
        """Leave a guard open after its owner's time. Return the guard."""
        ...

    def stranger(self) -> str:
        """Write an object below a guard known only to the storage. Return the guard."""
        ...


class TakingSubject(Subject, Protocol):
    """For ``TakesReferenced``."""

    def referred(self) -> tuple[str, str]:
        """Make a live snapshot with two objects. Return their addresses."""
        ...

    def refer(self, address: str) -> None:
        """Make another reference to such an object as writers do, in no snapshot yet."""
        ...


class InterruptedStorage(StorageWrapper):
    """Storage that calls a function before its writes; the function may write to it, too."""

    def __init__(self, inner: Storage, call: Callable[[], None]) -> None:
        super().__init__(inner)
        self._call = call
        self._interrupted = False

    def put(self, address: str, data: Payload, *, create: bool = False) -> None:
        if not self._interrupted:
            self._interrupted = True
            try:
                self._call()
            finally:
                self._interrupted = False
        super().put(address, data, create=create)


def failure_of(error: type[Failure], call: Callable[[], object]) -> Failure:
    """Return the error a call must fail with."""
    try:
        call()
    except error as failure:
        return failure
    raise AssertionError(f"no {error.__name__} was raised")


class Contract:
    """The common part of the contract classes."""

    def engine(
        self, subject: Subject, step: Callable[[str], None] = lambda _step: None
    ) -> LocalEngine:
        return LocalEngine(self.opener(subject), clock=subject.store.clock, step=step)

    def opener(self, subject: Subject) -> Opener:
        """Return an opener for each URL: the plan of a run is in a folder of its own."""
        storage, clock = subject.store.storage, subject.store.clock

        def opened(url: str) -> Storage:
            if url == storage.url:
                return storage
            return ClockedStorage(ObjectStorage.open(normalize(url)), clock)

        return opened

    def observed(self, subject: Subject, *, settled: bool = False) -> Observation:
        _, prefix = subject.store.place("contract")
        store = subject.store
        return store.observe(
            ObserveRequest(
                store.storage,
                f"{prefix}work/",
                self.engine(subject),
                timedelta(0),
                settled=settled,
            )
        )

    def require(self, subject: Subject, *abilities: type) -> None:
        """Skip the test unless the store declares one of some abilities."""
        store = subject.store
        owners = (type(store), store.handle, type(store.format))
        if not any(issubclass(owner, abilities) for owner in owners):
            names = " or ".join(ability.__name__ for ability in abilities)
            raise SkipTest(f"the store does not declare {names}")
