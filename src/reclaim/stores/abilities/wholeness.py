"""The ability of stores whose snapshots cannot be loaded without others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from reclaim.stores.format import Reader
from reclaim.stores.observation import Observation


class NeedsOtherSnapshots(ABC):
    """A store whose snapshots are of no use without others, such as their parents.

    Its format is ``sequential``: objects of one kind go one after the other.
    """

    @abstractmethod
    def keep_whole(
        self, seen: Observation, held: Iterable[str], *, besides: str, reader: Reader
    ) -> Observation:
        """An observation in which what promised snapshots need is live as well.

        Promised are those that other runs than ``besides`` have set aside and can bring back, and
        those at the addresses ``held``, which they were about to take or have begun to bring back.
        """

    @abstractmethod
    def in_order(self, addresses: Sequence[str], reader: Reader) -> Sequence[str]:
        """Objects, from the first to go to the last; they come back the other way round."""

    @abstractmethod
    def allow_missing(self) -> None:
        """Go on without snapshots that others name: a person says that they are lost for good."""
