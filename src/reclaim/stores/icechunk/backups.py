"""Backups: copies of replaced ``repo`` files, and the backups needed by the operations log."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from reclaim.errors import NotFound
from reclaim.model import StoredObject
from reclaim.storage import Storage
from reclaim.stores.icechunk.addresses import OVERWRITTEN
from reclaim.stores.icechunk.format import IcechunkFormat
from reclaim.stores.icechunk.repo_file import RepoFile, decode_repo


class Backups:
    """Backups of a repository."""

    def __init__(self, storage: Storage, format: IcechunkFormat) -> None:
        self._storage = storage
        self._folder = f"{format.prefix}{OVERWRITTEN}"
        self._before: dict[str, str | None] = {}
        """Predecessor of each backup already read. Backups never change."""

    def needed(self, repo: RepoFile, *, rotated: bool) -> set[str]:
        """Addresses of the backups continuing the log of ``repo``.

        Unless the log is about to be ``rotated``, backups named by its entries are needed as well:
        the library continues with them after dropping entries.
        """
        names = set(self._chain(repo.before_updates))
        if not rotated:
            for update in repo.updates:
                names.update(self._chain(update.backup))
        return {f"{self._folder}/{name}" for name in names}

    def old(self, needed: set[str], cutoff: datetime) -> tuple[int, int]:
        """Number and bytes of old, unneeded backups."""
        sizes = [
            backup.size
            for backup in self._listed()
            if backup.address not in needed and backup.last_modified < cutoff
        ]
        return len(sizes), sum(sizes)

    def _listed(self) -> Iterator[StoredObject]:
        return self._storage.list(self._folder)

    def _chain(self, name: str | None) -> Iterator[str]:
        """A backup and its predecessors, up to a missing backup."""
        while name is not None:
            yield name
            if name not in self._before:
                self._before[name] = self._read_before(name)
            name = self._before[name]

    def _read_before(self, name: str) -> str | None:
        address = f"{self._folder}/{name}"
        try:
            return decode_repo(self._storage.get(address), address).before_updates
        except NotFound:
            return None
