"""Abilities of stores whose history can be read and edited."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from reclaim.history import Edit
from reclaim.model import History, Lease, Ref, Snapshot, SnapshotId


class HistorySeen(Protocol):
    """A history from a consistent read, as the basis of an edit."""

    @property
    def snapshots(self) -> Sequence[Snapshot]: ...

    @property
    def refs(self) -> Sequence[Ref]: ...

    @property
    def busy(self) -> frozenset[str]:
        """Branches in use."""
        ...

    @property
    def returned(self) -> Sequence[Lease]:
        """Valid leases of undos on snapshots of the history: they keep their ancestors in it."""
        ...

    @property
    def count(self) -> int:
        """Number of snapshots, counted independently of reading them."""
        ...

    @property
    def editor(self) -> str | None:
        """Run whose edit of the history was read and may still be reverted."""
        ...


class ShowsHistory(ABC):
    """A store whose history can be read without a lock, to preview rules."""

    @abstractmethod
    def current_history(self) -> HistorySeen:
        """Current history, with messages. Read without a lock, so no change of the store is based
        on it.
        """


class HeldHistory(ABC):
    """History of a store, held by a run."""

    @abstractmethod
    def read_history(self) -> HistorySeen:
        """Current history, without the leftovers of dead runs."""


class EditsHistory(HeldHistory):
    """A held store whose history can be edited atomically: new parents, deleted refs."""

    @abstractmethod
    def edit_history(
        self,
        reparent: Mapping[SnapshotId, tuple[SnapshotId, ...]],
        delete_refs: Sequence[Ref],
        seen: HistorySeen,
    ) -> bool:
        """Edit the history, as decided on the history in ``seen``.

        Return False, with nothing done, if this decision may be outdated: the history was edited
        since, or a ref was added or moved so that it reaches more.
        """

    @abstractmethod
    def undo_edit(self) -> Sequence[str]:
        """Revert the edit of a run that condemned nothing; return sentences on changes not
        reverted.

        Refuse if the run condemned snapshots, or edited nothing. Afterwards the run counts as
        undone.
        """

    @abstractmethod
    def roll_back(self) -> Sequence[str] | None:
        """Revert the edit of a stopping run, so that it can be repeated; return the changes not
        reverted.

        None if the run has condemned snapshots and its edit remains.
        """


class NeedsMoreOnceEdited(ABC):
    """A store whose re-parented snapshots depend on extra objects."""

    @abstractmethod
    def needed_once_edited(self, history: History, edit: Edit) -> Collection[str]:
        """Additional addresses needed by edited snapshots. Pure, so that plans exclude these
        addresses. An apply observes them.
        """
