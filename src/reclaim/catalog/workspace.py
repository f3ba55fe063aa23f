"""A repository as operations on it need it: its row, and the tools that it shares with others."""

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
    """One repository, which may be deleted, with its database, storage, clock and partitions."""

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
        """The present instant as it is stored."""
        return to_micros(self.clock.now())

    def locate(self, entry: Entry) -> tuple[Storage, str]:
        """The storage that holds an entry's bytes, and the address there."""
        if entry.owned:
            return self.storage, entry.address
        return self.externals.locate(entry.address)

    def missing(self, entry: Entry) -> Exception:
        """The error for an entry whose bytes are not where it points: Gone if a run took them."""
        with self.database.read() as connection:
            taken = ledger.taken(connection, entry.address) or claims.taken(
                connection, entry.path, entry.address
            )
        if taken is not None:
            return taken
        if not entry.owned:
            return NotFound(
                f"{entry.path} points at {entry.address}, which is not there any more",
                hint="it lies outside the catalog, which never deletes it; look there",
            )
        return Corrupt(
            f"the bytes of {entry.path} are missing from the storage ({entry.address}), "
            "and no run of this catalog deleted them",
            hint="restore the object from a backup or another copy",
        )


@dataclass(slots=True)
class Externals:
    """The storages that staged objects outside the catalog live in, opened once each."""

    _storages: dict[str, Storage] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def locate(self, url: str) -> tuple[Storage, str]:
        """The storage of a normalised object URL, and the address in it."""
        root, address = split(url)
        with self._lock:
            if root not in self._storages:
                self._storages[root] = ObjectStorage.open(root)
            return self._storages[root], address

    def is_owned(self, url: str, asked: dict[str, bool]) -> bool:
        """Whether a URL lies below the ``repos/`` of any catalog's storage.

        Every place that could be such a storage's root is asked for the marker. ``asked`` keeps
        the answers, for as long as the caller thinks them good.
        """
        parts = url.split("/")
        for at, part in enumerate(parts):
            if part == addresses.ROOT.rstrip("/") and at > 2:
                marker = "/".join([*parts[:at], addresses.MARKER])
                if marker not in asked:
                    asked[marker] = self.exists(marker)
                if asked[marker]:
                    return True
        return False

    def exists(self, url: str) -> bool:
        """Whether there is an object at a URL."""
        storage, address = self.locate(url)
        try:
            storage.head(address)
        except NotFound:
            return False
        return True
