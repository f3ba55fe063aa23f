"""Reads layers from a disk, singly or many at once."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa

from reclaim.errors import Corrupt, UnknownVersion
from reclaim.model import SnapshotId
from reclaim.storage.local_folder import changed_at
from reclaim.stores.format import SNAPSHOTS
from reclaim.stores.terminus.addresses import ARCHIVE, ROLLUP, layer_of
from reclaim.stores.terminus.batch import decode_archives
from reclaim.stores.terminus.files import DICTIONARY_FILES, VALUES_FILE
from reclaim.stores.terminus.folder import READ
from reclaim.stores.terminus.larch import HEAD
from reclaim.stores.terminus.layer import (
    DIRECTORY_NEEDS,
    Layer,
    decode_archive,
    decode_directory,
    decode_parts,
    open_archive,
    parse_rollup,
)
from reclaim.stores.terminus.view import Facts, LayerView

SMALL_BYTES = 64 * 1024
"""Maximum size of archives read completely."""
BATCH_BYTES = 32 * 1024 * 1024
"""Approximate number of bytes of archives held in memory at a time."""
ROLLED_UP = "rolled up"
UNREAD = "unread"
"""Note on a layer the system could not read: it may be whole."""

LONGEST_ID_FILE = 1024
"""Maximum number of bytes read from a file holding an id."""

_FAULTS = (Corrupt, UnknownVersion, OSError, MemoryError)


@dataclass(frozen=True, slots=True)
class ReadLayers:
    """Objects as ``SNAPSHOTS``, and the addresses of missing objects."""

    rows: pa.Table
    gone: Sequence[str]


def read_layers(view: LayerView, addresses: Iterable[str], rollups: Collection[str]) -> ReadLayers:
    """Read objects of shards, with the references of the layers among them.

    ``rollups`` are the existing rollup files. Size and time of an archive are those of the open
    file, so each archive is opened once without a separate lookup.
    """
    root, device = str(view.root), view.folder.device
    tables: list[pa.Table] = []
    singles: list[str] = []
    unplain: list[Facts] = []
    archives: list[tuple[Facts, bytes]] = []
    held = 0

    def decode() -> None:
        nonlocal held
        table, undecoded = _decode(view, archives, rollups)
        tables.append(table)
        unplain.extend(undecoded)
        archives.clear()
        held = 0

    for address in addresses:
        if not address.endswith(ARCHIVE):
            singles.append(address)
            continue
        try:
            size, changed, data = _read_small(f"{root}/{address}", device)
        except OSError:
            singles.append(address)
            continue
        archives.append(((address, size, changed), data))
        held += len(data)
        if held > BATCH_BYTES:
            decode()
    decode()
    existing = view.there(singles)
    gone = {*singles}.difference(address for address, _, _ in existing)
    tables.append(_read_each(view, [*unplain, *existing], rollups))
    return ReadLayers(pa.concat_tables(tables), sorted(gone))


def bare_objects(objects: Iterable[Facts], *, fault: str | None = None) -> pa.Table:
    """Objects as ``SNAPSHOTS`` without references, optionally with a fault."""
    return _rows([(*facts, layer_of(facts[0]), None, None, None, None, fault) for facts in objects])


def read_layer(view: LayerView, address: str, *, rolled: bool | None = None) -> Layer:
    """Read a layer from its archive or directory. Of a large archive only the needed parts are
    read.

    ``rolled`` tells whether an archive has a rollup file beside it, if already known.
    """
    layer = layer_of(address)
    if layer is None:
        raise Corrupt(f"{address} is not the address of a layer")
    path = f"{view.root}/{address}"
    if not address.endswith(ARCHIVE):
        present = os.listdir(path)  # noqa: PTH208 - many small files
        files = {
            name: _read(f"{path}/{name}", None if name == VALUES_FILE else LONGEST_ID_FILE)
            for name in DIRECTORY_NEEDS
            if name in present
        }
        return decode_directory(layer, files, present=present)
    rollup = path.removesuffix(ARCHIVE) + ROLLUP
    if rolled is None:
        rolled = os.path.lexists(rollup)
    rollup_data = _read(rollup, LONGEST_ID_FILE) if rolled else None
    with open(os.open(path, READ), "rb", buffering=0) as file:  # noqa: PTH123
        head = file.read(SMALL_BYTES) or b""
        if len(head) < SMALL_BYTES:
            return decode_archive(layer, head, rollup=rollup_data)
        size = os.fstat(file.fileno()).st_size
        archive, values, parent = open_archive(layer, head, size)
        return decode_parts(
            layer,
            archive,
            size=size,
            values=_span(file.fileno(), *values),
            parent=None if parent is None else _span(file.fileno(), *parent),
            rollup=rollup_data,
        )


def read_dictionary(view: LayerView, address: str, file: int) -> bytes:
    """Read a dictionary of a layer, by the number of its file."""
    path = f"{view.root}/{address}"
    if not address.endswith(ARCHIVE):
        return _read(f"{path}/{DICTIONARY_FILES[file]}", None)
    layer = layer_of(address)
    assert layer is not None
    with open(os.open(path, READ), "rb", buffering=0) as archive:  # noqa: PTH123
        handle = archive.fileno()
        head = os.pread(handle, HEAD, 0)
        header, _, _ = open_archive(layer, head, os.fstat(handle).st_size)
        return _span(handle, *header.span(file))


def _decode(
    view: LayerView, archives: Sequence[tuple[Facts, bytes]], rollups: Collection[str]
) -> tuple[pa.Table, Sequence[Facts]]:
    """Archives as ``SNAPSHOTS``, and the archives to be read singly."""
    if not archives:
        return SNAPSHOTS.empty_table(), ()
    listed, data = zip(*archives, strict=True)
    addresses, sizes, times = zip(*listed, strict=True)
    ids = [layer_of(address) for address in addresses]
    batch = decode_archives(data)
    plain = batch.plain & np.array([id is not None for id in ids])
    through: list[SnapshotId | None] = [None] * len(listed)
    for at, address in enumerate(addresses):
        rollup = address[: -len(ARCHIVE)] + ROLLUP
        if rollup in rollups:
            try:
                through[at] = parse_rollup(_read(f"{view.root}/{rollup}", LONGEST_ID_FILE))
            except _FAULTS:
                plain[at] = False
    notes = [ROLLED_UP if rolled_up else None for rolled_up in batch.rolled_up.tolist()]
    columns = (addresses, sizes, times, ids, batch.parent, through, batch.names, notes)
    table = _table([*columns, pa.nulls(len(listed), pa.string())])
    return table.filter(pa.array(plain)), list(compress(listed, ~plain))


def _read_each(view: LayerView, listed: Sequence[Facts], rollups: Collection[str]) -> pa.Table:
    """Any objects as ``SNAPSHOTS``, read singly."""
    rows = []
    for address, size, changed in listed:
        id = layer_of(address)
        layer, fault, note = None, None, None
        if id is not None and not address.endswith(ROLLUP):
            try:
                has_rollup = address.removesuffix(ARCHIVE) + ROLLUP in rollups
                layer = read_layer(view, address, rolled=has_rollup)
            except _FAULTS as error:
                note = UNREAD if isinstance(error, OSError | MemoryError) else None
                fault = str(error) or f"it is too large to be read here ({size} bytes)"
        refers = (None, None, None, note) if layer is None else _refers(layer)
        rows.append((address, size, changed, id, *refers, fault))
    return _rows(rows)


def _refers(layer: Layer) -> tuple[str | None, str | None, Sequence[str], str | None]:
    return layer.parent, layer.rollup, layer.names, ROLLED_UP if layer.rolled_up else None


def _rows(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    return _table(zip(*rows, strict=True) if rows else [()] * len(SNAPSHOTS))


def _table(columns: Iterable[Any]) -> pa.Table:
    arrays = (
        column if isinstance(column, pa.Array) else pa.array(column, field.type)
        for column, field in zip(columns, SNAPSHOTS, strict=True)
    )
    return pa.table(list(arrays), schema=SNAPSHOTS)


def _read_small(path: str, device: int) -> tuple[int, int, bytes]:
    """Size and time of a file, and its bytes if it is small.

    Up to one byte beyond its size is read; whether the file is complete follows from its header.
    """
    handle = os.open(path, READ)
    try:
        status = os.fstat(handle)
        if status.st_dev != device or not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path} is not a file of the store")
        size = status.st_size
        data = os.read(handle, size + 1) if size < SMALL_BYTES else b""
    finally:
        os.close(handle)
    return size, changed_at(status, path), data


def _read(path: str, most: int | None) -> bytes:
    with open(os.open(path, READ), "rb", buffering=0) as file:  # noqa: PTH123
        return file.readall() if most is None else file.read(most) or b""


def _span(handle: int, start: int, end: int) -> bytes:
    data = b""
    while len(data) < end - start:
        piece = os.pread(handle, end - start - len(data), start + len(data))
        if not piece:
            raise Corrupt("an archive was cut off while it was read")
        data += piece
    return data
