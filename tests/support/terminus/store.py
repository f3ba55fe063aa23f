"""A store in a folder, written file by file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from random import Random

from reclaim.model import SnapshotId
from reclaim.stores.terminus import files as known
from reclaim.stores.terminus.labels import SYSTEM, Label, file_name, format_label
from reclaim.stores.terminus.version import FILE
from tests.support.terminus.encode import (
    STRING,
    encode_archive,
    encode_dictionary,
    encode_values,
)

_EMPTY = bytes(8)
_NODES, _NODE_OFFSETS = encode_dictionary([b"terminusdb://layer/data/Layer_1"])
_PREDICATES, _PREDICATE_OFFSETS = encode_dictionary(
    [b"http://terminusdb.com/schema/layer#identifier"]
)
_FIXED = dict(enumerate((_NODES, _NODE_OFFSETS, _PREDICATES, _PREDICATE_OFFSETS)))


class StoreWriter:
    """Writes layers, rollups and labels as a server or the bare library would.

    ``archives`` chooses the format of what is written next and can be changed at any time, for
    stores with both. ``written_at`` (seconds since 1970) is set on every file that is written
    next and on its directory, if there is one. Ids come from ``random``, so that equal seeds give
    equal stores.
    """

    def __init__(
        self,
        folder: Path,
        *,
        archives: bool = True,
        seed: int = 0,
        written_at: float | None = None,
    ) -> None:
        self.folder = folder
        self.archives = archives
        self.random = Random(seed)
        self.written_at = written_at
        self.folders: set[str] = set()
        """Those that are known to be there."""
        self._in_archives: dict[SnapshotId, bool] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def new_id(self) -> SnapshotId:
        return SnapshotId(f"{self.random.getrandbits(160):040x}")

    def layer(
        self,
        parent: SnapshotId | None = None,
        *,
        names: Iterable[str] = (),
        values: Iterable[str] = (),
        rolled_up: bool = False,
        layer: SnapshotId | None = None,
    ) -> SnapshotId:
        """Write a layer with the given strings as values; ``names`` are ids among them."""
        layer = layer or self.new_id()
        strings = sorted({text.encode() for text in (*names, *values)})
        contents = dict(_FIXED)
        contents.update(enumerate(encode_values((STRING, text) for text in strings), 4))
        expected = known.BASE_FILES if parent is None else known.CHILD_FILES
        if rolled_up:
            expected = expected | known.ID_MAP_FILES
        if parent is not None:
            contents[known.PARENT] = parent.encode()
        for number in expected:
            contents.setdefault(number, _EMPTY)
        self._in_archives[layer] = self.archives
        if self.archives:
            self._write(f"{layer[:3]}/{layer}.larch", encode_archive(contents))
        else:
            for number, name in expected.items():
                self._write(f"{layer[:3]}/{layer}/{name}", contents[number])
        return layer

    def rollup(
        self,
        layer: SnapshotId,
        *,
        parent: SnapshotId | None = None,
        names: Iterable[str] = (),
        values: Iterable[str] = (),
    ) -> SnapshotId:
        """Write a layer that stands for another, down to ``parent``, and point at it."""
        target = self.layer(parent, names=names, values=values, rolled_up=True)
        self.point(layer, target)
        return target

    def point(self, layer: SnapshotId, target: SnapshotId) -> None:
        """Let a layer be loaded through another, whatever it was loaded through before."""
        self._write(self.rollup_path(layer), f"1\n{target}\n".encode())

    def label(self, name: str, layer: SnapshotId | None, *, version: int = 1) -> None:
        self._write(file_name(name), format_label(Label(name, version, layer)))

    def unlabel(self, name: str) -> None:
        (self.folder / file_name(name)).unlink()

    def server(self, *, version: str = "2") -> None:
        """Make it a server's store: the version, and the labels of its own graphs."""
        self._write(FILE, version.encode())
        for name in SYSTEM:
            self.label(name, self.layer(values=[name]))

    def path(self, layer: SnapshotId) -> str:
        """The archive or the directory of a layer, from the store's folder."""
        stem = f"{layer[:3]}/{layer}"
        return f"{stem}.larch" if self._in_archives[layer] else stem

    def rollup_path(self, layer: SnapshotId) -> str:
        stem = f"{layer[:3]}/{layer}"
        archived = self._in_archives[layer]
        return f"{stem}.rollup.hex" if archived else f"{stem}/{known.ROLLUP_FILE}"

    def _write(self, name: str, data: bytes) -> None:
        folder = name.rpartition("/")[0]
        if folder not in self.folders:
            (self.folder / folder).mkdir(parents=True, exist_ok=True)
            self.folders.add(folder)
        path = f"{self.folder}/{name}"
        with open(path, "wb", buffering=0) as file:  # noqa: PTH123 - many small files
            file.write(data)
        if self.written_at is not None:
            os.utime(path, (self.written_at, self.written_at))
            if "/" in folder:
                os.utime(f"{self.folder}/{folder}", (self.written_at, self.written_at))
