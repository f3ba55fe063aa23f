"""Ability of stores whose writers work under guards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

from reclaim.storage.buckets import Upload


class KeepsGuards(ABC):
    """A store with guards: while a guard is open, its objects are kept.

    Writers may leave behind open guards, guards known only from the storage, and uploads.
    """

    @abstractmethod
    def unknown_guards(self) -> Sequence[str]:
        """Guards of present or former objects known only from the storage."""

    @abstractmethod
    def old_uploads(self) -> Sequence[Upload]:
        """Unfinished uploads in the bucket without an owner."""

    @abstractmethod
    def abort_uploads(self, uploads: Sequence[Upload]) -> int:
        """Abort uploads; return the number of bytes freed."""


class HeldGuards(ABC):
    """Guards of a store, held by a run."""

    @abstractmethod
    def close_overdue(self) -> None:
        """Close overdue partitions and uploads permanently; a plan may then count them as ended."""

    @abstractmethod
    def adopt(self, unknown: Collection[str]) -> None:
        """Register unknown guards as closed: the caller confirms that this is the right store."""
