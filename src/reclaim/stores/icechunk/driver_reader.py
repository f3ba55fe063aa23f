"""Reader of snapshots in this process, without an engine."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from reclaim.storage import KeyRange, Storage
from reclaim.stores.format import DecodesSnapshots


class DriverReader:
    """Reads snapshots in this process."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def survey(self, format: DecodesSnapshots, ranges: Sequence[KeyRange]) -> pa.Table:
        return format.survey(self._storage, ranges)

    def snapshots(self, format: DecodesSnapshots, addresses: Sequence[str]) -> pa.Table:
        return format.snapshots(self._storage, addresses)
