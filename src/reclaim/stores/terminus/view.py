"""A store's folder with layers as objects: an archive is one, and so is a whole directory.

A directory is listed, moved and deleted as one object, whose size is that of its files and whose
time is that of the latest change in it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from reclaim.clock import from_micros
from reclaim.errors import Corrupt, NotFound
from reclaim.model import StoredObject
from reclaim.storage import LISTED, Payload, Storage, translated
from reclaim.stores.terminus.addresses import ROLLUP, SHARD
from reclaim.urls import path_of

Facts = tuple[str, int, int]
"""An object's address, its size, and the microsecond of its latest change."""


class LayerView:
    """A storage on a local disk, with directories of layers as objects."""

    def __init__(self, inner: Storage, prefix: str) -> None:
        self._inner = inner
        self._prefix = prefix
        self.root = Path(path_of(inner.url))
        self.url = inner.url
        self.at_once = 1

    def path(self, address: str) -> Path:
        return self.root / address

    def shards(self) -> Sequence[str]:
        """The folders with layers."""
        with translated("list", self._prefix), os.scandir(self.root / self._prefix) as found:
            names = [one.name for one in found if SHARD.fullmatch(one.name) and one.is_dir()]
        return [self._prefix + name for name in sorted(names)]

    def batches(self, prefix: str = "") -> Iterator[pa.RecordBatch]:
        if not is_shard(prefix):
            yield from self._inner.batches(prefix)
            return
        if rows := self.layers(prefix):
            columns = zip(*rows, strict=True)
            arrays = [pa.array(c, f.type) for c, f in zip(columns, LISTED, strict=True)]
            yield pa.record_batch(arrays, schema=LISTED)

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        if not is_shard(prefix):
            yield from self._inner.list(prefix)
            return
        for address, size, changed in self.layers(prefix):
            yield StoredObject(address, size, from_micros(changed))

    def layers(self, folder: str) -> Sequence[Facts]:
        """What lies in a shard. What goes while it is listed was not there."""
        found: list[Facts] = []
        with suppress(NotFound), translated("list", folder):
            with os.scandir(f"{self.root}/{folder}") as entries:
                for one in entries:
                    if (facts := _facts(one)) is not None:
                        found.append((f"{folder}/{one.name}", *facts))
        return found

    def names(self, folder: str) -> Sequence[str]:
        """The names of what lies in a shard, and nothing else of it."""
        with suppress(NotFound), translated("list", folder):
            return os.listdir(f"{self.root}/{folder}")  # noqa: PTH208 - many small files
        return ()

    def there(self, addresses: Iterable[str]) -> Sequence[Facts]:
        """Those of some objects that are there."""
        there: list[Facts] = []
        for address in addresses:
            with translated("list", address):
                if (facts := _facts(self.path(address))) is not None:
                    there.append((address, *facts))
        return there

    def folders(self, prefix: str = "") -> tuple[Sequence[str], Sequence[StoredObject]]:
        path = self.root / prefix
        with translated("list", prefix):
            found = sorted(os.scandir(path), key=lambda one: one.name) if path.is_dir() else []
        inside = [f"{prefix}/{one.name}" for one in found if one.is_dir()]
        files = [f"{prefix}/{one.name}" for one in found if not one.is_dir()]
        return inside, [self.head(file) for file in files]

    def head(self, address: str) -> StoredObject:
        if not self.path(address).is_dir():
            return self._inner.head(address)
        facts = _facts(self.path(address))
        assert facts is not None
        return StoredObject(address, facts[0], from_micros(facts[1]))

    def move(self, source: str, target: str, *, size: int, fresh: bool = False) -> None:
        path, goal = self.path(source), self.path(target)
        if not path.is_dir():
            self._inner.move(source, target, size=size, fresh=fresh)
            return
        with translated("move", source):
            found = _facts(path)
            if found is None or found[0] != size:
                raise Corrupt(f"{path} has {found and found[0]} bytes instead of {size}")
            if goal.is_dir():
                # It was made again, or brought back before: one of the two is enough.
                shutil.rmtree(path)
                return
            if fresh:
                os.utime(path)
            goal.parent.mkdir(parents=True, exist_ok=True)
            path.rename(goal)

    def delete(self, address: str) -> None:
        if not self.path(address).is_dir():
            self._inner.delete(address)
            return
        with translated("delete", address):
            shutil.rmtree(self.path(address))

    def delete_page(self, addresses: Sequence[str]) -> None:
        # One after the other, so that what is left after a crash is whole.
        for address in addresses:
            self.delete(address)

    def put(self, address: str, data: Payload, *, create: bool = False) -> None:
        self._inner.put(address, data, create=create)

    def get(self, address: str) -> bytes:
        return self._inner.get(address)

    def stream(self, address: str) -> Iterator[bytes]:
        return self._inner.stream(address)

    def reader(self, address: str) -> BinaryIO:
        return self._inner.reader(address)

    def copy(self, source: str, target: str) -> None:
        self._inner.copy(source, target)

    def same(self, first: str, second: str) -> bool:
        if first.endswith(ROLLUP):
            # It names the rollup that a layer is loaded through; the one in place is the last.
            return True
        one, other = self.path(first), self.path(second)
        if not (one.is_dir() or other.is_dir()):
            return self._inner.same(first, second)
        with translated("compare", first):
            return one.is_dir() and other.is_dir() and _digests(one) == _digests(other)

    def flush(self, addresses: Iterable[str]) -> None:
        self._inner.flush(addresses)

    def flush_moved(self, addresses: Iterable[str]) -> None:
        self._inner.flush_moved(addresses)


def is_shard(folder: str) -> bool:
    """Whether a folder has layers, in the store or set aside; others have files of ours."""
    return SHARD.fullmatch(folder.rpartition("/")[2]) is not None


def _digests(folder: Path) -> dict[str, bytes]:
    """The hash of each file of a layer's directory."""
    digests = {}
    for path in folder.iterdir():
        with path.open("rb") as file:
            digests[path.name] = hashlib.file_digest(file, "sha256").digest()
    return digests


def _facts(entry: os.DirEntry[str] | Path) -> tuple[int, int] | None:
    """Size and time of a file, or of a directory with its files; None if it is not there."""
    try:
        status = entry.stat()
        if not stat.S_ISDIR(status.st_mode):
            return status.st_size, status.st_mtime_ns // 1000
        size, changed = 0, status.st_mtime_ns
        with os.scandir(entry) as found:
            for one in found:
                inside = one.stat()
                size += inside.st_size
                changed = max(changed, inside.st_mtime_ns)
    except FileNotFoundError:
        return None
    return size, changed // 1000
