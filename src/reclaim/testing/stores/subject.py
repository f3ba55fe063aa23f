"""Subjects: stores under test, with ways around the adapter."""

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
    """A store under test, with ways around it."""

    store: Store

    def another(self) -> Store:
        """The same store, opened by someone else."""
        ...

    def interrupted(self, call: Callable[[], None]) -> Store:
        """The same store, opened by somebody who is interrupted before each write to the storage.

        ``InterruptedStorage`` does that. Where a lease is written to a database, ``take_lease`` is
        interrupted before it.
        """
        ...

    def objects(self) -> set[str]:
        """Every object of the store that a collection may judge, listed in the storage itself."""
        ...

    def live(self) -> SnapshotId:
        """Make a snapshot that a ref names."""
        ...

    def live_otherwise(self) -> Mapping[str, SnapshotId]:
        """Make a snapshot that is live in each other way that the store has, by the way's name.

        ``branch``: the tip of another branch than the default one. ``tag``: only a tag names it.
        ``merge``: only the second parent of a merge leads to it. Empty if there is one way alone.
        """
        ...

    def dead(self) -> SnapshotId:
        """Make a snapshot that nothing reaches any more."""
        ...

    def dead_pair(self) -> tuple[SnapshotId, SnapshotId]:
        """Make two snapshots that nothing reaches any more, the first the parent of the second and
        ten days older. Each has an object that no other snapshot needs."""
        ...

    def needs(self, snapshot: SnapshotId) -> Mapping[str, str]:
        """Every address that a snapshot needs, with the kind of a container and "data"."""
        ...

    def swept(self, snapshot: SnapshotId) -> None:
        """Remove the objects of a dead snapshot, where it is there as long as they are."""
        ...

    def usable(self, snapshot: SnapshotId) -> bool:
        """Whether a ref can be made at a snapshot; it is taken back at once."""
        ...

    def staged(self) -> str | None:
        """Add something that is in no snapshot yet; its address, if the store has such things."""
        ...

    def uploading(self) -> str | None:
        """Write bytes that nothing refers to yet, as a writer in the middle of its work."""
        ...

    def lose(self, snapshot: SnapshotId) -> None:
        """Remove something from the storage that a snapshot cannot do without."""
        ...

    def shorten(self) -> bool:
        """Take a snapshot out of what is read, and leave the number of snapshots as it was.

        False if nothing of the kind can happen to the store.
        """
        ...

    def age(self) -> None:
        """Let so much time pass that no margin protects what is there."""
        ...

    def wait(self, time: timedelta) -> None:
        """Let some time pass."""
        ...


class LeasingSubject(Subject, Protocol):
    """For what every store must do with leases, whoever takes them."""

    def hold(self, snapshot: SnapshotId, length: timedelta) -> str:
        """Take a lease on a snapshot as its users do; returns its id."""
        ...


class HistorySubject(Subject, Protocol):
    """For ``EditsHistory`` and ``ExpiresItself``."""

    def line(self) -> Sequence[SnapshotId]:
        """Make three snapshots on the default branch, ten days apart, the oldest first."""
        ...

    def tag(self, name: str, snapshot: SnapshotId) -> None: ...

    def reached(self) -> set[SnapshotId]:
        """The snapshots that refs reach, by the store's own library."""
        ...


class LibrarySubject(HistorySubject, Protocol):
    """For ``ExpiresItself``."""

    def without_library(self) -> AbstractContextManager[None]:
        """As long as it is entered, the store's own library is not installed."""
        ...


class EditedSubject(HistorySubject, Protocol):
    """For ``NeedsMoreOnceEdited``."""

    def needs_besides(self, snapshot: SnapshotId) -> Collection[str]:
        """The addresses that a snapshot needs beside its own objects, as its history is now."""
        ...


class BackupSubject(Subject, Protocol):
    """For ``KeepsBackups``."""

    def backups(self) -> set[str]:
        """The copies that the store keeps of what it replaced; none if it keeps none."""
        ...

    def operations(self) -> Sequence[object]:
        """The operations on the store, as its own library tells them, newest first."""
        ...


class NamingSubject(Subject, Protocol):
    """For stores whose snapshots need others, or that may refer to what was set aside."""

    def name(self, snapshot: SnapshotId) -> None:
        """Make a ref at a snapshot, without asking anyone."""
        ...

    def below(self, snapshot: SnapshotId) -> Collection[SnapshotId]:
        """The other snapshots that a snapshot cannot be loaded without."""
        ...


class GuardedSubject(Subject, Protocol):
    """For ``KeepsGuards``."""

    def overdue(self) -> str:
        """Leave a guard open whose owner is out of time; returns the guard."""
        ...

    def stranger(self) -> str:
        """Write an object below a guard that only the storage knows; returns the guard."""
        ...


class TakingSubject(Subject, Protocol):
    """For ``TakesReferenced``."""

    def referred(self) -> tuple[str, str]:
        """Make a live snapshot with two objects; returns their addresses."""
        ...

    def refer(self, address: str) -> None:
        """Make another reference to such an object, as writers do, that is in no snapshot yet."""
        ...


class InterruptedStorage(StorageWrapper):
    """Storage in front of whose writes something else happens, which may write to it as well."""

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
    """The error that a call must fail with."""
    try:
        call()
    except error as failure:
        return failure
    raise AssertionError(f"no {error.__name__} was raised")


class Contract:
    """The common part of the classes of the contract."""

    def engine(
        self, subject: Subject, step: Callable[[str], None] = lambda _step: None
    ) -> LocalEngine:
        return LocalEngine(self.opener(subject), clock=subject.store.clock, step=step)

    def opener(self, subject: Subject) -> Opener:
        """Opens each URL as what it names: the plan of a run is in a folder of its own."""
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
