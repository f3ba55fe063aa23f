"""Abilities of stores in what they delete: when, in which order, and what besides objects."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from reclaim.storage.buckets import Upload
from reclaim.stores.format import Reader


@dataclass(frozen=True, slots=True)
class OnlineDeletes:
    """The objects that a store deletes by itself, without a run: those gone, and those waiting."""

    on: bool
    objects: int
    bytes: int
    last_at: datetime | None
    due: int
    oldest: datetime | None
    """Since when the oldest one of those that wait has been without a reference."""
    late: bool
    """Whether something is there that should have gone by now."""


@runtime_checkable
class DeletesOnline(Protocol):
    """A store that deletes bytes soon after nothing refers to them, where it is told to."""

    def online_deletes(self) -> OnlineDeletes: ...


@runtime_checkable
class ClosesOverdue(Protocol):
    """A held store in which what is out of time has to be ended as a state."""

    def close_overdue(self) -> None:
        """End, for good, what a plan may count as ended: partitions and uploads out of time."""
        ...


@runtime_checkable
class CompactsMetadata(Protocol):
    """A store in which something stays that nobody needs: old rows, what runs left that died."""

    def clean(self) -> None:
        """Remove it; what runs left only while no run holds the lock."""
        ...


@runtime_checkable
class OrdersDeletes(Protocol):
    """A store whose objects of one kind go one after the other."""

    def in_order(self, addresses: Sequence[str], reader: Reader) -> Sequence[str]:
        """Objects, from the first to go to the last; they come back the other way round."""
        ...


@runtime_checkable
class KeepsBackups(Protocol):
    """A store that keeps copies of what it replaces, for ever; see ``FreesKinds``."""

    def collect_backups(self) -> None:
        """Let plans name the copies that nothing will need: a person asks for it."""
        ...


@runtime_checkable
class FreesKinds(Protocol):
    """The held handle of a store that has to change something before objects of a kind may go."""

    def free_kinds(self, kinds: Collection[str]) -> None:
        """Make sure that nothing needs, now or later, what a plan names of some kinds. Asked
        before the roots are read: what is needed then stays."""
        ...


@runtime_checkable
class AbortsUploads(Protocol):
    """A store in whose bucket uploads can be left that were never finished."""

    def old_uploads(self) -> Sequence[Upload]:
        """Those that are nobody's any more."""
        ...

    def abort_uploads(self, uploads: Sequence[Upload]) -> int:
        """Give uploads up; returns the bytes that this frees."""
        ...
