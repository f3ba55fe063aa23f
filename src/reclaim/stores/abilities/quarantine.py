"""Abilities of stores whose objects can be quarantined and restored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from reclaim.model import Lease, SnapshotId
from reclaim.stores.format import Reader
from reclaim.stores.observation import Observation


@dataclass(frozen=True, slots=True)
class Restored:
    """Snapshots restored by an undo, with sentences about the others.

    ``left`` describes changes not reverted: changed since by others, or dependent on deleted data.
    ``waits`` describes snapshots which a later undo of the same run restores, once all their
    objects are present. ``held`` are leases of the undo on snapshots without other references.
    """

    snapshots: int
    left: Sequence[str]
    waits: Sequence[str]
    held: Sequence[Lease] = ()


class Quarantines(ABC):
    """A store that can restore snapshots with quarantined objects; see ``HeldQuarantine``."""

    @abstractmethod
    def taken(self, run_id: str) -> Mapping[SnapshotId, Mapping[str, str]]:
        """Snapshots condemned by a run, with the containers, by kind, that show whether they are
        whole.
        """

    @abstractmethod
    def promised(self, runs: Collection[str]) -> Mapping[str, Mapping[str, Collection[str]]]:
        """Containers of snapshots condemned or quarantined by undoable runs, by run and kind.
        Objects needed by these containers count as referenced, at either address.
        """


class HeldQuarantine(ABC):
    """Quarantine of a store, held by a run."""

    @abstractmethod
    def set_aside(self, ids: Collection[SnapshotId]) -> int:
        """Record the quarantine of the objects of snapshots condemned by the run.

        Snapshots condemned only by other runs, which cannot restore them, are removed.
        """

    @abstractmethod
    def restore(self, run_id: str, whole: Collection[SnapshotId], *, complete: bool) -> Restored:
        """Revert a run's changes to snapshots and refs, atomically, where nothing changed since.

        Only whole snapshots are restored. The run counts as undone if nothing waits and it is
        ``complete``: all of its objects are restored.
        """

    @abstractmethod
    def forget(self, run_id: str) -> int:
        """Remove the snapshots quarantined by a run; their objects are deleted already."""

    @abstractmethod
    def left_condemned(self) -> Mapping[SnapshotId, Mapping[str, str]]:
        """Condemned snapshots not restorable by any run, with their containers by kind. Some of
        their objects may be deleted.
        """

    @abstractmethod
    def take_over(self, ids: Collection[SnapshotId]) -> int:
        """Assign such snapshots to the run holding the lock, which can restore them from then on;
        return the count.
        """


class ReportsRereferenced(ABC):
    """A store in which quarantined objects may have been referenced again."""

    @abstractmethod
    def needed(self, run_id: str, reader: Reader) -> Collection[str]:
        """Quarantined objects of a run which are referenced now, by their address in the
        quarantine.
        """


class KeepsParents(ABC):
    """A store whose snapshots are whole without their parents, and are restored below them."""

    @abstractmethod
    def keep_parents(self, seen: Observation, *, besides: str) -> Observation:
        """Return an observation in which snapshots required by undoable runs are held, as by
        leases.

        These are the parents of snapshots restorable by runs other than ``besides``, and the
        snapshots bypassed by edits of such runs, or named by refs deleted in them.
        """
