"""Subjects: stores under test, with ways around the adapter."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Protocol, TypeVar
from unittest import SkipTest

from reclaim.model import SnapshotId
from reclaim.stores.base import Store
from reclaim.stores.observation import Observation, ObserveRequest
from reclaim.testing.engine import OracleEngine

Failure = TypeVar("Failure", bound=Exception)


class Subject(Protocol):
    """A store under test, with ways around it."""

    store: Store

    @property
    def abilities(self) -> frozenset[type]:
        """The abilities that the store declares, of itself, its handle and its format."""
        ...

    def another(self) -> Store:
        """The same store, opened by someone else."""
        ...

    def objects(self) -> set[str]:
        """Every object of the store that a collection may judge, listed in the storage itself."""
        ...

    def live(self) -> SnapshotId:
        """Make a snapshot that a ref names."""
        ...

    def dead(self) -> SnapshotId:
        """Make a snapshot that nothing reaches any more."""
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

    def age(self) -> None:
        """Let so much time pass that no margin protects what is there."""
        ...


class LeasingSubject(Subject, Protocol):
    """For ``ListsLeases``."""

    def hold(self, snapshot: SnapshotId) -> str:
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


class NamingSubject(Subject, Protocol):
    """For stores whose snapshots need others, or that may refer to what was set aside."""

    def name(self, snapshot: SnapshotId) -> None:
        """Make a ref at a snapshot, without asking anyone."""
        ...

    def below(self, snapshot: SnapshotId) -> Collection[SnapshotId]:
        """The other snapshots that a snapshot cannot be loaded without."""
        ...


class GuardedSubject(Subject, Protocol):
    """For stores with guards: ``ClosesOverdue``, ``AdoptsUnknown``."""

    def overdue(self) -> str:
        """Leave a guard open whose owner is out of time; returns the guard."""
        ...

    def stranger(self) -> str:
        """Write an object below a guard that only the storage knows; returns the guard."""
        ...


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
    ) -> OracleEngine:
        storage = subject.store.storage
        return OracleEngine(lambda _url: storage, clock=subject.store.clock, step=step)

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
        if subject.abilities.isdisjoint(abilities):
            names = " or ".join(ability.__name__ for ability in abilities)
            raise SkipTest(f"the store does not declare {names}")
