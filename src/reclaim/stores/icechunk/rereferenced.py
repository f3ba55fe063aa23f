"""Quarantined objects of a run which are referenced again.

In spec 1 a writer may reference a snapshot just removed; in spec 2 an older ``repo`` may have been
put in its place. Such snapshots are restored instead of deleted, with all their dependencies and
ancestors.
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
    """Quarantined objects of a run which are referenced now, by their quarantine addresses."""
    taken = observer.sidecar.lists.taken_by(run_id).keys()
    waiting = sorted(taken & observer.referred_to(reader))
    return _Quarantined(observer, run_id).needed(waiting, taken)


class _Quarantined:
    """Objects quarantined by a run."""

    def __init__(self, observer: IcechunkObserver, run_id: str) -> None:
        self._storage = observer.storage
        self._format = observer.format
        self._folder = observer.format.quarantine_path(run_id)
        self._withdrawn = observer.withdrawn.read()

    def needed(self, waiting: list[SnapshotId], taken: Collection[SnapshotId]) -> set[str]:
        addresses: set[str] = set()
        done: set[SnapshotId] = set()
        while waiting:
            snapshot = waiting.pop()
            if snapshot in done:
                continue
            done.add(snapshot)
            addresses |= self._objects_of(snapshot)
            parent = self._parent_of(snapshot)
            if parent is not None and parent in taken:
                waiting.append(parent)
        return addresses

    def _objects_of(self, snapshot: SnapshotId) -> set[str]:
        """A snapshot, its logs, its manifests and their chunks, by their quarantine addresses.

        Some may be at their original address: used by a live snapshot, or already restored.
        """
        home = self._format.address(SNAPSHOTS, snapshot)
        logs = [snapshot, *self._pruned(snapshot)]
        addresses = {
            self._quarantine_address(home),
            *(self._quarantine_address(self._format.address(TRANSACTIONS, log)) for log in logs),
        }
        for row in self._format.containers(self._storage, self._current_address(home)).to_pylist():
            manifest = {**row, "address": self._current_address(row["address"])}
            chunks = self._format.entries(self._storage, manifest, paths=False).column("address")
            addresses.add(self._quarantine_address(row["address"]))
            addresses.update(map(self._quarantine_address, chunks.to_pylist()))
        return addresses

    def _current_address(self, home: str) -> str:
        """Current address of an object: in quarantine, otherwise the original address."""
        quarantined = self._quarantine_address(home)
        try:
            self._storage.head(quarantined)
        except NotFound:
            return home
        return quarantined

    def _parent_of(self, snapshot: SnapshotId) -> SnapshotId | None:
        if snapshot in self._withdrawn:
            return self._withdrawn[snapshot].entry.parent
        address = self._current_address(self._format.address(SNAPSHOTS, snapshot))
        file = read_snapshot(self._storage, address)
        return None if file.parent is None else SnapshotId(file.parent)

    def _pruned(self, snapshot: SnapshotId) -> Collection[str]:
        return self._withdrawn[snapshot].entry.pruned() if snapshot in self._withdrawn else ()

    def _quarantine_address(self, home: str) -> str:
        """Quarantine address of an object."""
        return self._folder + home.removeprefix(self._format.prefix)
