"""Abilities of stores whose history can be read and edited."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from reclaim.history import Edit
from reclaim.model import History, Lease, Ref, Snapshot, SnapshotId


class HistorySeen(Protocol):
    """A history as it was read at once, to decide on an edit of it."""

    @property
    def snapshots(self) -> Sequence[Snapshot]: ...

    @property
    def refs(self) -> Sequence[Ref]: ...

    @property
    def busy(self) -> frozenset[str]:
        """The branches that somebody works on."""
        ...

    @property
    def returned(self) -> Sequence[Lease]:
        """The valid leases of undos, on snapshots of the history: what they reach stays in it."""
        ...

    @property
    def count(self) -> int:
        """The number of snapshots, counted in another way than by reading them."""
        ...

    @property
    def editor(self) -> str | None:
        """A run whose edit of the history was read and may still be taken back."""
        ...


class ShowsHistory(ABC):
    """A store whose history anybody can read, to be told what rules would make of it."""

    @abstractmethod
    def current_history(self) -> HistorySeen:
        """The history as it stands, with messages. It needs no lock, so nothing is decided on it
        that changes the store."""


class HeldHistory(ABC):
    """The history of a store, in the hands of one run."""

    @abstractmethod
    def read_history(self) -> HistorySeen:
        """The history as it stands, without what runs that died made of it."""


class EditsHistory(HeldHistory):
    """A held store whose history can be edited: new parents, refs that go, all or nothing."""

    @abstractmethod
    def edit_history(
        self,
        reparent: Mapping[SnapshotId, tuple[SnapshotId, ...]],
        delete_refs: Sequence[Ref],
        seen: HistorySeen,
    ) -> bool:
        """Edit a history as was decided on what was seen of it.

        False, with nothing done, if that decision need not hold any more: somebody edited the
        history since, or made or moved a ref so that it reaches more.
        """

    @abstractmethod
    def undo_edit(self) -> Sequence[str]:
        """Take the edit of the run back that condemned nothing; what was left, in sentences.

        Refused if it did condemn something, or edited nothing. The run counts as undone afterwards.
        """

    @abstractmethod
    def roll_back(self) -> Sequence[str] | None:
        """Take the edit of a run back that stops, so that it can be made again; what was left.

        None if the run has condemned something, and its edit stands.
        """


class NeedsMoreOnceEdited(ABC):
    """A store whose snapshots need more than their own objects once their parents are others."""

    @abstractmethod
    def needed_once_edited(self, history: History, edit: Edit) -> Collection[str]:
        """Addresses that edited snapshots need from then on, and did not need before. Pure: so
        that a plan does not name them. An apply sees them when it observes."""
