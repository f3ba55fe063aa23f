"""Containers by name: addresses derived from the ids of many snapshots.

A mapping with an additional column, which avoids a Python string for each address.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import pyarrow as pa

from reclaim.model import SnapshotId


class NamedContainers(Mapping[SnapshotId, str]):
    """Containers of one kind. Each snapshot has its own, shared with no other kind."""

    def __init__(
        self,
        snapshots: Sequence[SnapshotId],
        known: Collection[SnapshotId],
        column: pa.Array,
        name: Callable[[SnapshotId], str],
    ) -> None:
        """``known`` are the same snapshots as a set, and ``column`` their addresses."""
        self._snapshots = snapshots
        self._known = known
        self._name = name
        self.column = column

    def __getitem__(self, snapshot: SnapshotId) -> str:
        if snapshot not in self._known:
            raise KeyError(snapshot)
        return self._name(snapshot)

    def __contains__(self, snapshot: object) -> bool:
        return snapshot in self._known

    def __iter__(self) -> Iterator[SnapshotId]:
        return iter(self._snapshots)

    def __len__(self) -> int:
        return len(self._snapshots)
