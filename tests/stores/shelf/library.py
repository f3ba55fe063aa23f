"""The library of shelves: writes snapshots and refs, reads them, and expires history itself.

A shelf is a folder of a storage. Its index says which snapshots and refs there are; what it does
not name does not exist. Every change of it is the next file in the folder ``index``, which one can
write and nobody else, so that no change is lost; what was written before stays. A snapshot is a
file that lists manifests, and has another one with its attributes; a manifest gives paths their
chunks. Chunks lie in one flat folder under random names. The index may have keys of others, which
are carried over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Any

from reclaim.clock import Clock
from reclaim.errors import AlreadyExists, NotFound
from reclaim.storage import Storage

INDEX, CHUNKS, MANIFESTS, SNAPSHOTS, ATTRIBUTES = (
    "index",
    "chunks",
    "manifests",
    "snapshots",
    "attributes",
)
DEFAULT = "main"
VERSION = 1


class ShelfError(Exception):
    """What the library says when it does not do something."""


class IndexChanged(ShelfError):
    """Somebody changed the index since it was read."""


@dataclass
class Entry:
    """A snapshot in the index."""

    parents: list[str]
    written_at: datetime
    message: str = ""

    def document(self) -> dict[str, Any]:
        return {
            "parents": self.parents,
            "written_at": self.written_at.isoformat(),
            "message": self.message,
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Entry:
        written_at = datetime.fromisoformat(document["written_at"])
        return cls(list(document["parents"]), written_at, document["message"])


@dataclass
class Index:
    """What there is on a shelf."""

    version: int = VERSION
    count: int = 0
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    snapshots: dict[str, Entry] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)
    """What others keep in the index."""
    number: int = 0
    """The change by which it came to be as it is."""

    def tips(self) -> set[str]:
        return {*self.branches.values(), *self.tags.values()}


class Shelf:
    """One shelf. ``chance`` makes the names of what it writes."""

    def __init__(
        self, storage: Storage, prefix: str, clock: Clock, chance: Random | None = None
    ) -> None:
        self._storage = storage
        self._prefix = prefix
        self._clock = clock
        self._chance = chance or Random()

    def address(self, folder: str, name: str = "") -> str:
        return f"{self._prefix}{folder}/{name}" if name else f"{self._prefix}{folder}"

    def create(self) -> None:
        """Make a shelf with one empty snapshot on its default branch."""
        origin = self._write_snapshot([], {}, "created")
        index = Index(branches={DEFAULT: origin[0]}, snapshots=dict([origin]))
        self.write(index)

    def read(self) -> Index:
        number = self._newest()
        document = json.loads(self._storage.get(self.index_address(number)))
        return Index(
            document.pop("version"),
            document.pop("count"),
            document.pop("branches"),
            document.pop("tags"),
            {name: Entry.of(entry) for name, entry in document.pop("snapshots").items()},
            document,
            number,
        )

    def write(self, index: Index) -> None:
        """Write an index as the next one; fails if another was written since it was read."""
        document = {
            "version": index.version,
            "count": len(index.snapshots),
            "branches": index.branches,
            "tags": index.tags,
            "snapshots": {name: entry.document() for name, entry in index.snapshots.items()},
            **index.others,
        }
        data = json.dumps(document).encode()
        try:
            self._storage.put(self.index_address(index.number + 1), data, create=True)
        except AlreadyExists as error:
            raise IndexChanged("somebody else changed the shelf; try again") from error

    def change(self, edit: Callable[[Index], bool | None]) -> None:
        """Change the index, and from the start again when somebody else was faster.

        An edit that returns False has found nothing to change.
        """
        while True:
            index = self.read()
            if edit(index) is False:
                return None
            try:
                return self.write(index)
            except IndexChanged:
                continue

    def index_address(self, number: int) -> str:
        return self.address(INDEX, f"{number:012d}.json")

    def _newest(self) -> int:
        folder = self.address(INDEX)
        names = (stored.address.rpartition("/")[2] for stored in self._storage.list(folder))
        numbers = [int(name.removesuffix(".json")) for name in names]
        if not numbers:
            raise NotFound(f"there is nothing in {folder}")
        return max(numbers)

    # Writing

    def commit(
        self,
        branch: str,
        files: Mapping[str, bytes],
        *,
        written_at: datetime | None = None,
        message: str = "",
    ) -> str:
        """Put files on a branch; returns the snapshot. Folders that stay as they are are shared.

        Fails if the branch is not where it was when the commit began.
        """
        tip = self.read().branches[branch]
        manifests = dict(self.manifests(tip))
        new = {path: self._write_chunk(data) for path, data in files.items()}
        for folder in sorted({_folder(path) for path in files}):
            before = self.chunks(manifests[folder]) if folder in manifests else {}
            within = {path: chunk for path, chunk in new.items() if _folder(path) == folder}
            manifests[folder] = self._write_manifest({**before, **within})
        name, entry = self._write_snapshot([tip], manifests, message)
        entry.written_at = written_at or entry.written_at
        self._advance({branch: tip}, branch, name, entry)
        return name

    def merge(self, branch: str, other: str) -> str:
        """Put the folders of another branch that one does not have there as well."""
        branches = self.read().branches
        tips = {branch: branches[branch], other: branches[other]}
        manifests = {**self.manifests(tips[other]), **self.manifests(tips[branch])}
        name, entry = self._write_snapshot([tips[branch], tips[other]], manifests, f"merge {other}")
        self._advance(tips, branch, name, entry)
        return name

    def _advance(self, tips: Mapping[str, str], branch: str, name: str, entry: Entry) -> None:
        """Let a branch go on to a new snapshot, if the branches that it is made of did not move."""

        def advance(index: Index) -> None:
            for one, tip in tips.items():
                if index.branches.get(one) != tip:
                    raise ShelfError(f"the branch {one} was moved or deleted; commit again")
            index.snapshots[name] = entry
            index.branches[branch] = name

        self.change(advance)

    def branch(self, name: str, at: str) -> None:
        def create(index: Index) -> None:
            self._check(index, at)
            index.branches[name] = at

        self.change(create)

    def tag(self, name: str, at: str) -> None:
        def create(index: Index) -> None:
            self._check(index, at)
            index.tags[name] = at

        self.change(create)

    def delete_branch(self, name: str) -> None:
        self.change(lambda index: index.branches.__delitem__(name))

    def delete_tag(self, name: str) -> None:
        self.change(lambda index: index.tags.__delitem__(name))

    def expire(
        self,
        older_than: datetime,
        *,
        delete_tags: bool = False,
        delete_branches: bool = False,
        seen_refs: tuple[Mapping[str, str], Mapping[str, str]] | None = None,
    ) -> None:
        """Take snapshots out of the history that were written before an instant.

        Tips stay, unless their refs are to be deleted; the default branch never is. What stays and
        loses a parent hangs on the origin of its tree. Deletes no file. With
        ``seen_refs``, the branches and the tags as they were seen, it fails if they are others now.
        """

        def expire(index: Index) -> None:
            if seen_refs is not None and seen_refs != (index.branches, index.tags):
                raise IndexChanged("a branch or a tag was made, moved or deleted")
            expired = {
                name
                for name, entry in index.snapshots.items()
                if entry.parents and entry.written_at < older_than
            }
            for refs, is_asked in ((index.tags, delete_tags), (index.branches, delete_branches)):
                for name in [one for one, tip in refs.items() if tip in expired]:
                    if is_asked and not (refs is index.branches and name == DEFAULT):
                        del refs[name]
            expired -= index.tips()
            origins = {name: _origin(index, name) for name in index.snapshots}
            for name, entry in index.snapshots.items():
                if name not in expired and expired.intersection(entry.parents):
                    entry.parents = [origins[name]]

        self.change(expire)

    # Reading

    def manifests(self, snapshot: str) -> dict[str, str]:
        """The manifest of each folder."""
        listed = json.loads(self._storage.get(self.address(SNAPSHOTS, snapshot)))["manifests"]
        return {one["folder"]: one["id"] for one in listed}

    def chunks(self, manifest: str) -> dict[str, str]:
        """The chunk at each path."""
        found = json.loads(self._storage.get(self.address(MANIFESTS, manifest)))["chunks"]
        return {str(path): str(chunk) for path, chunk in found.items()}

    def files(self, snapshot: str) -> dict[str, bytes]:
        """Everything that can be read of a snapshot."""
        self._storage.get(self.address(ATTRIBUTES, snapshot))
        return {
            path: self._storage.get(self.address(CHUNKS, chunk))
            for manifest in self.manifests(snapshot).values()
            for path, chunk in self.chunks(manifest).items()
        }

    def history(self, ref: str) -> list[str]:
        """What a ref reaches, from its tip on; the first parents only."""
        index = self.read()
        found = [{**index.tags, **index.branches}[ref]]
        while above := index.snapshots[found[-1]].parents:
            found.append(above[0])
        return found

    def _check(self, index: Index, snapshot: str) -> None:
        if snapshot not in index.snapshots:
            raise ShelfError(f"there is no snapshot {snapshot}")

    def _write_chunk(self, data: bytes) -> str:
        name = self._new_name()
        self._storage.put(self.address(CHUNKS, name), data)
        return name

    def _write_manifest(self, chunks: Mapping[str, str]) -> str:
        name = self._new_name()
        document = {"chunks": dict(chunks)}
        self._storage.put(self.address(MANIFESTS, name), json.dumps(document).encode())
        return name

    def _write_snapshot(
        self, parents: list[str], manifests: Mapping[str, str], message: str
    ) -> tuple[str, Entry]:
        name = self._new_name()
        listed = [
            {"folder": folder, "id": one, "chunks": len(self.chunks(one))}
            for folder, one in manifests.items()
        ]
        self._storage.put(self.address(ATTRIBUTES, name), json.dumps({"by": "shelf"}).encode())
        document = {"manifests": listed}
        self._storage.put(self.address(SNAPSHOTS, name), json.dumps(document).encode())
        return name, Entry(parents, self._clock.now(), message)

    def _new_name(self) -> str:
        return self._chance.randbytes(10).hex()


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _origin(index: Index, snapshot: str) -> str:
    while above := index.snapshots[snapshot].parents:
        snapshot = above[0]
    return snapshot
