"""The ability of stores whose writers work below guards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

from reclaim.storage.buckets import Upload


class KeepsGuards(ABC):
    """A store with guards: while a guard is open, nothing is taken of what it protects.

    Writers may have left a guard open, a guard that only the storage knows, or an upload.
    """

    @abstractmethod
    def unknown_guards(self) -> Sequence[str]:
        """Guards that protect objects, or did, and that only the storage knows."""

    @abstractmethod
    def old_uploads(self) -> Sequence[Upload]:
        """Unfinished uploads in the bucket that are nobody's any more."""

    @abstractmethod
    def abort_uploads(self, uploads: Sequence[Upload]) -> int:
        """Give uploads up; returns the bytes that this frees."""


class HeldGuards(ABC):
    """The guards of a store, in the hands of one run."""

    @abstractmethod
    def close_overdue(self) -> None:
        """End, for good, what a plan may count as ended: partitions and uploads out of time."""

    @abstractmethod
    def adopt(self, unknown: Collection[str]) -> None:
        """Register unknown guards as closed: a person says that the store is the right one."""
