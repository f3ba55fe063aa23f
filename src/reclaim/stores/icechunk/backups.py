"""Backups: each ``repo`` that was replaced, and which of them the operations log needs."""

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
    """The backups of a repository."""

    def __init__(self, storage: Storage, format: IcechunkFormat) -> None:
        self._storage = storage
        self._folder = f"{format.prefix}{OVERWRITTEN}"
        self._before: dict[str, str | None] = {}
        """The backup before each one that was read. A backup is never changed."""

    def needed(self, repo: RepoFile, *, rotated: bool) -> set[str]:
        """The addresses of backups in which the log goes on that begins in ``repo``.

        Unless the log is about to be ``rotated``, those that it names are needed as well: the
        library goes on with them when it drops entries.
        """
        names = set(self._chain(repo.before_updates))
        if not rotated:
            for update in repo.updates:
                names.update(self._chain(update.backup))
        return {f"{self._folder}/{name}" for name in names}

    def old(self, needed: set[str], cutoff: datetime) -> tuple[int, int]:
        """How many backups there are that are old and not needed, and their bytes."""
        sizes = [
            one.size
            for one in self._listed()
            if one.address not in needed and one.last_modified < cutoff
        ]
        return len(sizes), sum(sizes)

    def _listed(self) -> Iterator[StoredObject]:
        return self._storage.list(self._folder)

    def _chain(self, name: str | None) -> Iterator[str]:
        """A backup and those before it; it ends where one is missing."""
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
