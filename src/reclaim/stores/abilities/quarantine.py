"""Abilities of stores whose objects can be set aside, and brought back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from reclaim.model import Lease, SnapshotId
from reclaim.stores.format import Reader
from reclaim.stores.observation import Observation


@dataclass(frozen=True, slots=True)
class Restored:
    """The snapshots that an undo brought back, and sentences about the rest.

    What was ``left`` has changed since and is somebody else's now, or leads to what is gone for
    good; what ``waits`` comes back with a later undo of the same run, once all that it needs is
    there. ``held`` are leases of the undo, on snapshots that nothing else keeps.
    """

    snapshots: int
    left: Sequence[str]
    waits: Sequence[str]
    held: Sequence[Lease] = ()


class Quarantines(ABC):
    """A store that can have snapshots back whose objects were set aside; see ``HeldQuarantine``."""

    @abstractmethod
    def taken(self, run_id: str) -> Mapping[SnapshotId, Mapping[str, str]]:
        """The snapshots that a run condemned, with those of their containers, by kind, that tell
        whether they are whole."""

    @abstractmethod
    def promised(self, runs: Collection[str]) -> Mapping[str, Mapping[str, Collection[str]]]:
        """Containers of the snapshots that runs which can be undone condemned or put in quarantine,
        by run and kind. What these need counts as referred to, wherever it lies."""


class HeldQuarantine(ABC):
    """The quarantine of a store, in the hands of one run."""

    @abstractmethod
    def set_aside(self, ids: Collection[SnapshotId]) -> int:
        """Note of snapshots that the run has condemned that their objects were set aside.

        Those that only other runs condemned, which cannot bring them back, are removed.
        """

    @abstractmethod
    def restore(self, run_id: str, whole: Collection[SnapshotId], *, complete: bool) -> Restored:
        """Take back what a run did to snapshots and refs, all at once, where nothing changed.

        Only snapshots that are whole come back. The run counts as undone afterwards if nothing
        waits and it is ``complete``: all of its objects are back.
        """

    @abstractmethod
    def forget(self, run_id: str) -> int:
        """Remove the snapshots whose objects a run set aside; these are deleted by now."""

    @abstractmethod
    def left_condemned(self) -> Mapping[SnapshotId, Mapping[str, str]]:
        """Snapshots that are condemned, and that no run can bring back, with their containers by
        kind. Something of them may have been deleted."""

    @abstractmethod
    def take_over(self, ids: Collection[SnapshotId]) -> int:
        """Count such snapshots as condemned by the run that holds the lock, which can bring them
        back from now on; returns how many."""


class ReportsRereferenced(ABC):
    """A store that may have begun to refer to something that was set aside."""

    @abstractmethod
    def needed(self, run_id: str, reader: Reader) -> Collection[str]:
        """Objects in a run's quarantine that something refers to now, by their address there."""


class KeepsParents(ABC):
    """A store whose snapshots are whole without their parents, and come back below them."""

    @abstractmethod
    def keep_parents(self, seen: Observation, *, besides: str) -> Observation:
        """An observation in which what runs would build on is held, as by leases.

        These are the parents of snapshots that other runs than ``besides`` can bring back, and the
        snapshots that such runs passed over when they edited history, or deleted a ref of.
        """
