"""A repository at rest: all that is in a folder or in a bucket at one time, to be brought back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Protocol

from reclaim.storage import Storage


class Resting(Protocol):
    """What was there at one time."""

    def restore(self) -> None:
        """Bring it back, in the place of what is there."""
        ...


class RestingFolder:
    """A folder at one time, with the times of its files."""

    def __init__(self, folder: Path, copy: Path) -> None:
        self._folder = folder
        self._copy = copy
        shutil.copytree(folder, copy)

    def restore(self) -> None:
        shutil.rmtree(self._folder)
        shutil.copytree(self._copy, self._folder)


class RestingBucket:
    """The objects below a prefix at one time. What has changed since is written anew."""

    def __init__(self, storage: Storage, prefix: str) -> None:
        self._storage = storage
        self._prefix = prefix
        self._etags = self._listed()
        self._objects = {address: storage.get(address) for address in self._etags}

    def _listed(self) -> dict[str, str]:
        return {stored.address: stored.etag for stored in self._storage.list(self._prefix)}

    def restore(self) -> None:
        there = self._listed()
        for address in there.keys() - self._etags.keys():
            self._storage.delete(address)
        for address, etag in self._etags.items():
            if there.get(address) != etag:
                self._storage.put(address, self._objects[address])
