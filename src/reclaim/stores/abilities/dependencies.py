"""Ability of stores whose snapshots depend on other snapshots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from reclaim.stores.format import Reader
from reclaim.stores.observation import Observation


class NeedsOtherSnapshots(ABC):
    """A store whose snapshots are unusable without others, such as their parents.

    Its format is ``sequential``: objects of one kind are deleted in order.
    """

    @abstractmethod
    def keep_whole(
        self, seen: Observation, held: Iterable[str], *, besides: str, reader: Reader
    ) -> Observation:
        """Return an observation in which the dependencies of promised snapshots are live as well.

        Promised snapshots are those quarantined by runs other than ``besides`` and restorable, and
        those at the addresses ``held``, which such runs were about to quarantine or have begun to
        restore.
        """

    @abstractmethod
    def in_order(self, addresses: Sequence[str], reader: Reader) -> Sequence[str]:
        """Objects in the order of deletion; they are restored in reverse order."""

    @abstractmethod
    def allow_missing(self) -> None:
        """Continue without missing snapshots named by others: the caller confirms their loss."""
