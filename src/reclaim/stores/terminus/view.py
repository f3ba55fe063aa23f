"""View of a store's folder with layers as objects: each archive, and each whole directory.

A directory is listed, moved and deleted as one object, with the size of its files and the time of
the latest change in it. A file outside the naming scheme is a *stray*: it is counted in a shard,
and kept in its place, there and in quarantine.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from reclaim.clock import from_micros
from reclaim.errors import Conflict, Corrupt, NotFound, OwnedAddress, Refused
from reclaim.model import SnapshotId, StoredObject
from reclaim.storage import (
    LISTED,
    KeyRange,
    LastCheck,
    Payload,
    Storage,
    no_check,
    translated,
)
from reclaim.stores.format import QUARANTINE
from reclaim.stores.terminus.addresses import (
    ARCHIVE,
    OURS,
    ROLLUP,
    SHARD,
    is_layer,
    layer_of,
    stem,
)
from reclaim.stores.terminus.folder import StoreFolder
from reclaim.stores.terminus.label_files import read_labels
from reclaim.stores.terminus.layer import parse_rollup
from reclaim.urls import path_of

log = logging.getLogger(__name__)

_RUN_FOLDERS = (f"{OURS}/runs/", f"{OURS}/{QUARANTINE}/")

Facts = tuple[str, int, int]
"""An object's address, its size, and the microsecond of its latest change."""


class LayerView:
    """A storage on a local disk, with directories of layers as objects."""

    def __init__(self, inner: Storage, prefix: str) -> None:
        self._inner = inner
        self._prefix = prefix
        self._runs = f"{prefix}{OURS}/{QUARANTINE}"
        self.root = Path(path_of(inner.url))
        self.folder = StoreFolder(self.root, prefix.rstrip("/"))
        self.url = inner.url
        self.at_once = 1
        self.reads_at_once = 1

    def path(self, address: str) -> Path:
        return self.root / address

    def shards(self) -> Sequence[str]:
        """Folders of layers; refuse a link or a mount."""
        names = []
        self.folder.check_mounts("")
        with translated("list", self._prefix), os.scandir(self.root / self._prefix) as entries:
            for entry in entries:
                if SHARD.fullmatch(entry.name):
                    status = entry.stat(follow_symlinks=False)
                    self.folder.check(self._prefix + entry.name, status)
                    if stat.S_ISDIR(status.st_mode):
                        names.append(entry.name)
        return [self._prefix + name for name in sorted(names)]

    def check(self) -> None:
        """Refuse links and mounts among the shards, and in Reclaim's own folder."""
        self.shards()
        folder = f"{self._prefix}{OURS}"
        with suppress(NotFound), translated("list", folder):
            self.folder.status(folder)
        self._inside(folder)
        self._inside(self._runs)

    def batches(
        self, prefix: str = "", *, after: str = "", until: str = ""
    ) -> Iterator[pa.RecordBatch]:
        if not is_shard(prefix):
            yield from self._inner.batches(prefix, after=after, until=until)
            return
        if rows := self.layers(KeyRange(prefix, after, until)):
            columns = zip(*rows, strict=True)
            arrays = [pa.array(c, f.type) for c, f in zip(columns, LISTED, strict=True)]
            yield pa.record_batch(arrays, schema=LISTED)

    def list(self, prefix: str = "", *, after: str = "", until: str = "") -> Iterator[StoredObject]:
        if not is_shard(prefix):
            yield from self._inner.list(prefix, after=after, until=until)
            return
        for address, size, changed in self.layers(KeyRange(prefix, after, until)):
            yield StoredObject(address, size, from_micros(changed))

    def layers(self, keys: KeyRange) -> Sequence[Facts]:
        """Objects of layers in a shard. Objects deleted during the listing are omitted."""
        return self.there(address for address in self.addresses(keys) if layer_of(address))

    def addresses(self, keys: KeyRange) -> Sequence[str]:
        """Addresses of all entries in a shard."""
        inside = (f"{keys.prefix}/{name}" for name in self.names(keys.prefix))
        return [address for address in inside if address in keys]

    def names(self, folder: str) -> Sequence[str]:
        """Names of all entries in a shard, without their status."""
        self.folder.check_mounts(folder)
        with suppress(NotFound), translated("list", folder), self.folder.open(folder) as handle:
            return [name for name in os.listdir(handle) if _is_text(name)]  # noqa: PTH208
        return ()

    def there(self, addresses: Iterable[str]) -> Sequence[Facts]:
        """Return the existing objects."""
        existing: list[Facts] = []
        for address in addresses:
            with suppress(NotFound), translated("list", address):
                existing.append((address, *self._facts(address)))
        return existing

    def folders(self, prefix: str = "") -> tuple[Sequence[str], Sequence[StoredObject]]:
        subfolders, files = self._inside(prefix)
        if prefix.rpartition("/")[0] == self._runs:
            # Only folders created by runs, so that nothing else is restored or deleted.
            for stray in self.strays(prefix):
                log.warning("%s belongs to no layer; it is kept there", self.path(stray))
            return [name for name in subfolders if _is_run_folder(name)], []
        return subfolders, [self.head(file) for file in files]

    def quarantined_runs(self) -> Sequence[str]:
        """Runs with a folder in quarantine."""
        return [run.rpartition("/")[2] for run in self._inside(self._runs)[0]]

    def strays(self, run: str) -> Sequence[str]:
        """Files and links in a run's quarantine folder which no run puts there."""
        strays: list[str] = []
        with suppress(NotFound):
            for address, status in self._entries(run):
                if not (stat.S_ISDIR(status.st_mode) and _is_run_folder(address)):
                    strays.append(address)
                elif is_shard(address):
                    strays += (
                        file
                        for file, inside in self._entries(address)
                        if layer_of(file) is None or stat.S_ISLNK(inside.st_mode)
                    )
        return sorted(strays)

    def head(self, address: str) -> StoredObject:
        with translated("look up", address):
            status = self.folder.status(address)
            if stat.S_ISDIR(status.st_mode) and layer_of(address):
                size, changed = self.folder.facts(address, status)
                return StoredObject(address, size, from_micros(changed))
        return self._inner.head(address)

    def move(
        self,
        source: str,
        target: str,
        *,
        size: int,
        fresh: datetime | None = None,
        last_check: LastCheck = no_check,
    ) -> None:
        self._check_takeable(source)
        with translated("move", source):
            if stat.S_ISDIR(self.folder.status(source).st_mode):
                self.folder.rename(source, target, size=size, fresh=fresh, last_check=last_check)
                return
            if layer_of(source):
                with suppress(FileNotFoundError):
                    self.folder.status(target)
                    self.folder.drop_copy(source, target, last_check)
                    return
        self._inner.move(source, target, size=size, fresh=fresh, last_check=last_check)

    def delete(self, address: str) -> None:
        self._check_unlabelled([address])
        self._delete(address)

    def _delete(self, address: str) -> None:
        self._check_takeable(address)
        with suppress(NotFound), translated("delete", address):
            if stat.S_ISDIR(self.folder.status(address).st_mode):
                self.folder.remove(address)
                return
        self._inner.delete(address)

    def delete_page(self, addresses: Sequence[str]) -> None:
        self._check_unlabelled(addresses)
        # In order, so that the layers left after a crash are whole.
        for address in addresses:
            self._delete(address)

    def put(self, address: str, data: Payload, *, create: bool = False) -> None:
        self._inner.put(address, data, create=create)

    def get(self, address: str) -> bytes:
        return b"".join(self.stream(address)) if layer_of(address) else self._inner.get(address)

    def stream(self, address: str) -> Iterator[bytes]:
        """Bytes of an object; for a directory with the names and sizes of its files."""
        if layer_of(address) is None:
            yield from self._inner.stream(address)
            return
        with translated("read", address):
            yield from self.folder.contents(address)

    def get_range(self, address: str, start: int, end: int) -> bytes:
        return self._inner.get_range(address, start, end)

    def reader(self, address: str) -> BinaryIO:
        return self._inner.reader(address)

    def copy(self, source: str, target: str) -> None:
        self._inner.copy(source, target)

    def same(self, first: str, second: str) -> bool:
        if first.endswith(ROLLUP) and self._names_layer(first):
            # A rollup file names the rollup of a layer; the file in place is the latest.
            return True
        if layer_of(first) is None:
            return self._inner.same(first, second)
        with translated("compare", first):
            return self.folder.same(first, second)

    def _names_layer(self, rollup: str) -> bool:
        """Whether a rollup file is valid, and names an existing layer."""
        try:
            with translated("read", rollup):
                layer = parse_rollup(b"".join(self.folder.contents(rollup)))
                return self._in_place(layer)
        except Corrupt:
            return False

    def flush(self, addresses: Iterable[str]) -> None:
        self._inner.flush(addresses)

    def flush_moved(self, addresses: Iterable[str]) -> None:
        self._inner.flush_moved(addresses)

    def drop_folder(self, folder: str) -> None:
        """Do nothing: folders are managed by the server."""

    def _check_takeable(self, address: str) -> None:
        """Refuse to move or delete anything but layers and files of runs, whatever a plan lists."""
        below = address.removeprefix(self._prefix)
        if below == address or not (below.startswith(_RUN_FOLDERS) or is_layer(below)):
            raise OwnedAddress(
                f"{str(self.path(address))!r} belongs to no layer and to no run, and is kept",
                hint="the plan was modified; make a new plan",
            )

    def _inside(self, folder: str) -> tuple[Sequence[str], Sequence[str]]:
        """Subfolders and files directly in a folder."""
        folders: list[str] = []
        files: list[str] = []
        with suppress(NotFound):
            for address, status in self._entries(folder):
                self.folder.check(address, status)
                (folders if stat.S_ISDIR(status.st_mode) else files).append(address)
        return sorted(folders), sorted(files)

    def _entries(self, folder: str) -> Iterator[tuple[str, os.stat_result]]:
        """All entries directly in a folder, without following links."""
        with translated("list", folder), self.folder.open(folder) as handle:
            with os.scandir(handle) as entries:
                for entry in entries:
                    if _is_text(entry.name):
                        yield f"{folder}/{entry.name}", entry.stat(follow_symlinks=False)

    def _check_unlabelled(self, addresses: Sequence[str]) -> None:
        """Refuse to delete if a label needs a layer not whole in its place.

        Labels are read right before a delete: a label may have been added since the mark.
        """
        going = [(address, layer) for address in addresses if (layer := layer_of(address))]
        going = [(address, layer) for address, layer in going if not self._has_copy(address, layer)]
        if not going:
            return
        labels = read_labels(self.root / self._prefix)
        named = {label.layer: label.name for label in labels if label.layer}
        for layer, label in named.items():
            if not self._in_place(layer):
                raise Conflict(
                    f"nothing was deleted, because the label {label} names the layer {layer}, "
                    "which is not in its place"
                )
        for address, layer in going:
            # A layer in its place does not need an old rollup file.
            if layer in named and not (address.endswith(ROLLUP) and self._is_aside(address)):
                raise Conflict(
                    f"{address} was kept, because the label {named[layer]} names its layer"
                )

    def _has_copy(self, address: str, layer: SnapshotId) -> bool:
        """Whether a quarantined object is identical to the object at its original address."""
        home = self._home(address, layer)
        return self._is_aside(address) and bool(self.there([home])) and self.same(home, address)

    def _is_aside(self, address: str) -> bool:
        return address.startswith(f"{self._runs}/")

    def _home(self, address: str, layer: SnapshotId) -> str:
        name = address.rpartition("/")[2]
        return f"{self._prefix}{stem(layer)}{name.removeprefix(layer)}"

    def _in_place(self, layer: SnapshotId) -> bool:
        return bool(self.there(f"{self._prefix}{stem(layer)}{end}" for end in (ARCHIVE, "")))

    def _facts(self, address: str) -> tuple[int, int]:
        """Size and time of an object; refuse an object whose type contradicts its name."""
        # Its shard was opened without following a link, during the listing.
        status = os.lstat(f"{self.root}/{address}")
        self.folder.check(address, status)
        if layer_of(address):
            named = stat.S_ISREG if address.endswith((ARCHIVE, ROLLUP)) else stat.S_ISDIR
            if not named(status.st_mode):
                raise Refused(
                    f"{str(self.path(address))!r} is named like a layer, but is not a layer",
                    hint="move it out of the store; nothing was deleted",
                )
        elif stat.S_ISDIR(status.st_mode):
            return 0, status.st_mtime_ns // 1000
        return self.folder.facts(address, status)


def is_shard(folder: str) -> bool:
    """Whether a folder holds layers, in the store or in quarantine; others hold Reclaim's files."""
    return SHARD.fullmatch(folder.rpartition("/")[2]) is not None


def _is_run_folder(folder: str) -> bool:
    """Whether runs create such a folder in quarantine: for layers, or for old runs."""
    return is_shard(folder) or folder.endswith(f"/{OURS}")


def _is_text(name: str) -> bool:
    """Whether a name can be encoded; all names of the format can."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
