"""Reading layers from a disk: one, or many at once."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import compress, repeat
from typing import Any

import numpy as np
import pyarrow as pa

from reclaim.errors import Corrupt, UnknownVersion
from reclaim.model import SnapshotId
from reclaim.stores.base import SNAPSHOTS
from reclaim.stores.terminus.addresses import ARCHIVE, ROLLUP, layer_of
from reclaim.stores.terminus.batch import decode_archives
from reclaim.stores.terminus.larch import HEAD, needed, parse_header
from reclaim.stores.terminus.layer import (
    DIRECTORY_NEEDS,
    Layer,
    decode_archive,
    decode_directory,
    decode_parts,
    parse_rollup,
)
from reclaim.stores.terminus.view import Facts, LayerView

WHOLE = 64 * 1024
"""Archives up to this size are read at once."""
TOGETHER = 32 * 1024 * 1024
"""So many bytes of them are held at a time."""
ROLLED_UP = "rolled up"

_FAULTS = (Corrupt, UnknownVersion, OSError)


def read_layers(view: LayerView, listed: Sequence[Facts], rollups: Collection[str]) -> pa.Table:
    """Objects as ``SNAPSHOTS``, with what the layers among them refer to.

    ``rollups`` are the rollup files that are there.
    """
    small: list[Facts] = []
    rest: list[Facts] = []
    for one in listed:
        (small if one[1] < WHOLE and one[0].endswith(ARCHIVE) else rest).append(one)
    tables = []
    for few in _together(small):
        table, left = _read_archives(view, few, rollups)
        tables.append(table)
        rest += left
    return pa.concat_tables([*tables, _read_each(view, rest, rollups)])


def read_layer(view: LayerView, address: str, *, rolled: bool | None = None) -> Layer:
    """A layer from its archive or directory. Of a large archive only what is needed is read.

    ``rolled`` says whether an archive has a rollup file beside it, for who knows that already.
    """
    layer = layer_of(address)
    if layer is None:
        raise Corrupt(f"{address} is not the address of a layer")
    path = f"{view.root}/{address}"
    if not address.endswith(ARCHIVE):
        present = os.listdir(path)  # noqa: PTH208 - many small files
        files = {name: _read(f"{path}/{name}") for name in DIRECTORY_NEEDS if name in present}
        return decode_directory(layer, files, present=present)
    rollup = path.removesuffix(ARCHIVE) + ROLLUP
    if rolled is None:
        rolled = os.path.exists(rollup)  # noqa: PTH110
    beside = _read(rollup) if rolled else None
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
        head = file.read(WHOLE) or b""
        if len(head) < WHOLE:
            return decode_archive(layer, head, rollup=beside)
        size = os.fstat(file.fileno()).st_size
        archive = parse_header(head[:HEAD])
        values, parent = needed(archive)
        return decode_parts(
            layer,
            archive,
            size=size,
            values=_span(file.fileno(), *values),
            parent=None if parent is None else _span(file.fileno(), *parent),
            rollup=beside,
        )


def _together(listed: Sequence[Facts]) -> Iterator[Sequence[Facts]]:
    """Archives in groups that are not too large."""
    groups = np.cumsum([size for _, size, _ in listed]) // TOGETHER if listed else np.array([])
    for group in np.unique(groups):
        yield list(compress(listed, groups == group))


def _read_archives(
    view: LayerView, listed: Sequence[Facts], rollups: Collection[str]
) -> tuple[pa.Table, Sequence[Facts]]:
    """Small archives as ``SNAPSHOTS``, and those that have to be looked at one by one."""
    addresses, sizes, times = zip(*listed, strict=True)
    ids = [layer_of(address) for address in addresses]
    batch = decode_archives(list(map(_whole, repeat(str(view.root)), addresses, sizes)))
    plain = batch.plain & np.array([one is not None for one in ids])
    through: list[SnapshotId | None] = [None] * len(listed)
    for at, address in enumerate(addresses):
        rollup = address[: -len(ARCHIVE)] + ROLLUP
        if rollup in rollups:
            try:
                through[at] = parse_rollup(_read(f"{view.root}/{rollup}"))
            except _FAULTS:
                plain[at] = False
    notes = [ROLLED_UP if rolled_up else None for rolled_up in batch.rolled_up.tolist()]
    columns = (addresses, sizes, times, ids, batch.parent, through, batch.names, notes)
    nothing = pa.nulls(len(listed), pa.string())
    table = _table([*columns, nothing])
    return table.filter(pa.array(plain)), list(compress(listed, ~plain))


def _read_each(view: LayerView, listed: Sequence[Facts], rollups: Collection[str]) -> pa.Table:
    """Any objects as ``SNAPSHOTS``, one by one."""
    rows = []
    for address, size, changed in listed:
        found = layer_of(address)
        layer, fault = None, None
        if found is not None and not address.endswith(ROLLUP):
            try:
                beside = address.removesuffix(ARCHIVE) + ROLLUP in rollups
                layer = read_layer(view, address, rolled=beside)
            except _FAULTS as error:
                fault = str(error)
        told = (None,) * 4 if layer is None else _told(layer)
        rows.append((address, size, changed, found, *told, fault))
    return _table(zip(*rows, strict=True) if rows else [()] * len(SNAPSHOTS))


def _told(layer: Layer) -> tuple[str | None, str | None, Sequence[str], str | None]:
    return layer.parent, layer.rollup, layer.names, ROLLED_UP if layer.rolled_up else None


def _table(columns: Iterable[Any]) -> pa.Table:
    arrays = (
        found if isinstance(found, pa.Array) else pa.array(found, field.type)
        for found, field in zip(columns, SNAPSHOTS, strict=True)
    )
    return pa.table(list(arrays), schema=SNAPSHOTS)


def _whole(root: str, address: str, size: int) -> bytes:
    """A file of so many bytes, and one more if it has more; nothing if it cannot be read.

    Whether it is all of it, its own header tells.
    """
    try:
        handle = os.open(f"{root}/{address}", os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(handle, size + 1)
    except OSError:
        return b""
    finally:
        os.close(handle)


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
        return file.readall()


def _span(handle: int, start: int, end: int) -> bytes:
    found = b""
    while len(found) < end - start:
        piece = os.pread(handle, end - start - len(found), start + len(found))
        if not piece:
            raise Corrupt("an archive was cut off while it was read")
        found += piece
    return found
