"""Abilities of stores whose objects can be set aside, and brought back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

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


@runtime_checkable
class Quarantines(Protocol):
    """A store that can have snapshots back whose objects were set aside; see ``SetsAside``."""

    def taken(self, run_id: str) -> Mapping[SnapshotId, Mapping[str, str]]:
        """The snapshots that a run condemned, with those of their containers, by kind, that tell
        whether they are whole."""
        ...

    def promised(self, runs: Collection[str]) -> Mapping[str, Mapping[str, Collection[str]]]:
        """Containers of the snapshots that runs which can be undone condemned or put in quarantine,
        by run and kind. What these need counts as referred to, wherever it lies."""
        ...


@runtime_checkable
class SetsAside(Protocol):
    """The quarantine, on the held handle of a store that has one."""

    def set_aside(self, ids: Collection[SnapshotId]) -> int:
        """Note of snapshots that the run has condemned that their objects were set aside.

        Those that only other runs condemned, which cannot bring them back, are removed.
        """
        ...

    def restore(self, run_id: str, whole: Collection[SnapshotId], *, complete: bool) -> Restored:
        """Take back what a run did to snapshots and refs, all at once, where nothing changed.

        Only snapshots that are whole come back. The run counts as undone afterwards if nothing
        waits and it is ``complete``: all of its objects are back.
        """
        ...

    def forget(self, run_id: str) -> int:
        """Remove the snapshots whose objects a run set aside; these are deleted by now."""
        ...


@runtime_checkable
class TakesOver(Protocol):
    """The held handle of a store in which a run can leave snapshots condemned when it ends."""

    def left_condemned(self) -> Mapping[SnapshotId, Mapping[str, str]]:
        """Snapshots that are condemned, and that no run can bring back, with their containers by
        kind. Something of them may have been deleted."""
        ...

    def take_over(self, ids: Collection[SnapshotId]) -> int:
        """Count such snapshots as condemned by the run that holds the lock, which can bring them
        back from now on; returns how many."""
        ...


@runtime_checkable
class ReportsRereferenced(Protocol):
    """A store that may have begun to refer to something that was set aside."""

    def needed(self, run_id: str, reader: Reader) -> Collection[str]:
        """Objects in a run's quarantine that something refers to now, by their address there."""
        ...


@runtime_checkable
class KeepsParents(Protocol):
    """A store whose snapshots are whole without their parents, and come back below them."""

    def keep_parents(self, seen: Observation, *, besides: str) -> Observation:
        """An observation in which what runs would build on is held, as by leases.

        These are the parents of snapshots that other runs than ``besides`` can bring back, and the
        snapshots that such runs passed over when they edited history, or deleted a ref of.
        """
        ...


@runtime_checkable
class KnowsReleased(Protocol):
    """A store that knows what edits of its history have taken out of it."""

    def find_released(self, ids: Collection[SnapshotId]) -> Collection[SnapshotId]:
        """Those of some snapshots that an undo of an edit would bring back into the history."""
        ...
