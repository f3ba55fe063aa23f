"""Repository with the database, storage and tools that operations on it need."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import datetime

from reclaim.catalog import addresses
from reclaim.catalog.collection.clones.homes import Home
from reclaim.catalog.content.entries import Entry
from reclaim.catalog.content.tree import ContainerReader
from reclaim.catalog.database.transactions import Database
from reclaim.catalog.staging import claims, ledger
from reclaim.catalog.staging.partitions import Partitions
from reclaim.clock import Clock, to_micros
from reclaim.errors import Corrupt, NotFound
from reclaim.storage import ObjectStorage, Storage
from reclaim.urls import split


@dataclass(frozen=True, slots=True)
class Workspace:
    """Repository, deleted or not, with its database, storage, clock and partitions."""

    repo_uid: str
    name: str
    default_branch: str
    created_at: datetime
    deleted: bool
    database: Database
    storage: Storage
    clock: Clock
    partitions: Partitions
    containers: ContainerReader
    externals: Externals
    home: Home

    def now(self) -> int:
        """Current time in stored form."""
        return to_micros(self.clock.now())

    def locate(self, entry: Entry) -> tuple[Storage, str]:
        """Storage of an entry's bytes, and the address there."""
        if entry.owned:
            return self.storage, entry.address
        return self.externals.locate(entry.address)

    def missing(self, entry: Entry) -> Exception:
        """Error for an entry whose bytes are missing: Gone if a run deleted them."""
        with self.database.read() as connection:
            taken = ledger.taken(connection, entry.address) or claims.taken(
                connection, entry.path, entry.address
            )
        if taken is not None:
            return taken
        if not entry.owned:
            return NotFound(
                f"{entry.path} points to {entry.address}, which no longer exists",
                hint="the object is outside the catalog, which never deletes it; check its storage",
            )
        return Corrupt(
            f"the bytes of {entry.path} are missing from the storage ({entry.address}), "
            "and no run of this catalog deleted them",
            hint="restore the object from a backup or another copy",
        )


@dataclass(slots=True)
class Externals:
    """Storages of staged objects outside the catalog, each opened once."""

    _storages: dict[str, Storage] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def locate(self, url: str) -> tuple[Storage, str]:
        """Return the storage of a normalized object URL, and the address there."""
        root, address = split(url)
        with self._lock:
            if root not in self._storages:
                self._storages[root] = ObjectStorage.open(root)
            return self._storages[root], address

    def is_owned(self, url: str, known_markers: dict[str, bool]) -> bool:
        """Whether a URL is below the ``repos/`` of any catalog's storage.

        Every possible root is checked for the marker. ``known_markers`` caches the results for as
        long as the caller trusts them.
        """
        parts = url.split("/")
        for depth, part in enumerate(parts):
            if part == addresses.ROOT.rstrip("/") and depth > 2:
                marker = "/".join([*parts[:depth], addresses.MARKER])
                if marker not in known_markers:
                    known_markers[marker] = self.exists(marker)
                if known_markers[marker]:
                    return True
        return False

    def exists(self, url: str) -> bool:
        """Whether an object exists at a URL."""
        storage, address = self.locate(url)
        try:
            storage.head(address)
        except NotFound:
            return False
        return True
