"""Objects that a run has in quarantine and that something refers to again.

In spec 1 nothing keeps a writer from a snapshot that has just gone; in spec 2 somebody may have put
an older ``repo`` in its place. Such snapshots come back instead of being deleted for good, with all
that they use and their ancestors.
"""

from __future__ import annotations

from collections.abc import Collection

from reclaim.errors import NotFound
from reclaim.model import SnapshotId
from reclaim.stores.format import Reader
from reclaim.stores.icechunk.addresses import SNAPSHOTS, TRANSACTIONS
from reclaim.stores.icechunk.format import read_snapshot
from reclaim.stores.icechunk.observing import IcechunkObserver


def rereferenced(observer: IcechunkObserver, run_id: str, reader: Reader) -> Collection[str]:
    """Objects in a run's quarantine that something refers to now, by their addresses there."""
    taken = observer.sidecar.lists.taken_by(run_id).keys()
    waiting = sorted(taken & observer.referred_to(reader))
    return _Quarantined(observer, run_id).needed(waiting, taken)


class _Quarantined:
    """The objects that a run has put in quarantine."""

    def __init__(self, observer: IcechunkObserver, run_id: str) -> None:
        self._storage = observer.storage
        self._format = observer.format
        self._aside = observer.format.quarantine_path(run_id)
        self._withdrawn = observer.withdrawn.read()

    def needed(self, waiting: list[SnapshotId], taken: Collection[SnapshotId]) -> set[str]:
        found: set[str] = set()
        done: set[SnapshotId] = set()
        while waiting:
            snapshot = waiting.pop()
            if snapshot in done:
                continue
            done.add(snapshot)
            found |= self._objects_of(snapshot)
            parent = self._parent_of(snapshot)
            if parent is not None and parent in taken:
                waiting.append(parent)
        return found

    def _objects_of(self, snapshot: SnapshotId) -> set[str]:
        """A snapshot, its logs, its manifests and their chunks, by their addresses in quarantine.

        Some of it may be at home: a live snapshot uses it, or somebody has begun to bring it back.
        """
        home = self._format.address(SNAPSHOTS, snapshot)
        logs = [snapshot, *self._pruned(snapshot)]
        found = {
            self._at(home),
            *(self._at(self._format.address(TRANSACTIONS, log)) for log in logs),
        }
        for row in self._format.containers(self._storage, self._where(home)).to_pylist():
            manifest = {**row, "address": self._where(row["address"])}
            entries = self._format.entries(self._storage, manifest, paths=False)
            found.add(self._at(row["address"]))
            found.update(map(self._at, entries.column("address").to_pylist()))
        return found

    def _where(self, home: str) -> str:
        """The address at which an object is now: in quarantine, or else at home."""
        aside = self._at(home)
        try:
            self._storage.head(aside)
        except NotFound:
            return home
        return aside

    def _parent_of(self, snapshot: SnapshotId) -> SnapshotId | None:
        if snapshot in self._withdrawn:
            return self._withdrawn[snapshot].entry.parent
        address = self._where(self._format.address(SNAPSHOTS, snapshot))
        file = read_snapshot(self._storage, address)
        return None if file.parent is None else SnapshotId(file.parent)

    def _pruned(self, snapshot: SnapshotId) -> Collection[str]:
        return self._withdrawn[snapshot].entry.pruned() if snapshot in self._withdrawn else ()

    def _at(self, home: str) -> str:
        """Where an object of the repository is in quarantine."""
        return self._aside + home.removeprefix(self._format.prefix)
