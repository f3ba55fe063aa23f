"""The parts of a layer relevant for garbage collection: its references."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from reclaim.errors import Corrupt, UnknownVersion
from reclaim.model import SnapshotId
from reclaim.stores.terminus.files import (
    BASE_MARK,
    BASE_REQUIRED,
    CHILD_MARK,
    CHILD_REQUIRED,
    ID_MAPS_FILE,
    OLD_VALUES_FILE,
    PARENT_FILE,
    ROLLUP_FILE,
    VALUES_FILE,
)
from reclaim.stores.terminus.larch import HEAD, Archive, Span, check_complete, needed, parse_header
from reclaim.stores.terminus.tfc import find_ids

DIRECTORY_NEEDS = (VALUES_FILE, PARENT_FILE, ROLLUP_FILE)
"""Files of a directory to be read; for other files, the names are sufficient."""

_ID = re.compile(rb"[0-9a-f]{40}")
_ROLLUP = re.compile(rb"1\n([0-9a-f]{40})\n")


@dataclass(frozen=True, slots=True)
class Layer:
    """References of a layer to other layers."""

    id: SnapshotId
    parent: SnapshotId | None = None
    rollup: SnapshotId | None = None
    names: tuple[SnapshotId, ...] = ()
    rolled_up: bool = False

    def needs(self) -> Sequence[SnapshotId]:
        """Layers required for loading it."""
        return [layer for layer in (self.parent, self.rollup) if layer is not None]


def is_id(text: str) -> bool:
    return bool(_ID.fullmatch(text.encode()))


def decode_archive(layer: SnapshotId, data: bytes, *, rollup: bytes | None = None) -> Layer:
    """Decode a whole archive, and the ``.rollup.hex`` beside it if present."""
    try:
        archive = parse_header(data)
        values, parent = needed(archive)
        return decode_parts(
            layer,
            archive,
            size=len(data),
            values=data[values[0] : values[1]],
            parent=None if parent is None else data[parent[0] : parent[1]],
            rollup=rollup,
        )
    except Corrupt as fault:
        raise _of(layer, fault) from None


def open_archive(layer: SnapshotId, head: bytes, size: int) -> tuple[Archive, Span, Span | None]:
    """Decode the header of an archive of ``size`` bytes, and the positions of the parts to read.

    They are within the file: a header with other positions is refused before any part is read,
    regardless of the part's length.
    """
    try:
        archive = parse_header(head[:HEAD])
        check_complete(archive, size)
        return archive, *needed(archive)
    except Corrupt as fault:
        raise _of(layer, fault) from None


def decode_parts(
    layer: SnapshotId,
    archive: Archive,
    *,
    size: int,
    values: bytes,
    parent: bytes | None,
    rollup: bytes | None = None,
) -> Layer:
    """Decode a layer from the parts of an archive of ``size`` bytes named by ``larch.needed``."""
    try:
        check_complete(archive, size)
        decoded = Layer(
            layer,
            parent=None if parent is None else parse_parent(parent),
            names=_names(values),
            rolled_up=archive.rolled_up,
        )
    except Corrupt as fault:
        raise _of(layer, fault) from None
    return decoded if rollup is None else with_rollup(decoded, rollup)


def decode_directory(
    layer: SnapshotId, files: Mapping[str, bytes], *, present: Collection[str] | None = None
) -> Layer:
    """Decode a layer from a directory: its files by name, at least those of ``DIRECTORY_NEEDS``.

    ``present`` are the names of all its files, if ``files`` is incomplete. The directory and its
    parent are written first, so the directory counts as complete if every required file of its kind
    exists. The contents of files not read are not checked.
    """
    names = frozenset(files if present is None else present)
    if OLD_VALUES_FILE in names:
        raise UnknownVersion(
            f"the layer {layer} was written by an older version, as {OLD_VALUES_FILE}",
            hint="upgrade the store with its own tools",
        )
    try:
        if (BASE_MARK in names) == (CHILD_MARK in names):
            raise Corrupt("its directory is incomplete, or both of a base layer and of a child")
        missing = (CHILD_REQUIRED if CHILD_MARK in names else BASE_REQUIRED) - names
        if missing:
            raise Corrupt(f"its directory is incomplete: {min(missing)} is missing")
        if BASE_MARK in names and PARENT_FILE in names:
            raise Corrupt("it has a parent and is a base layer")
        decoded = Layer(
            layer,
            parent=parse_parent(files[PARENT_FILE]) if PARENT_FILE in names else None,
            names=_names(files[VALUES_FILE]),
            rolled_up=ID_MAPS_FILE in names,
        )
    except Corrupt as fault:
        raise _of(layer, fault) from None
    return with_rollup(decoded, files[ROLLUP_FILE]) if ROLLUP_FILE in names else decoded


def with_rollup(layer: Layer, data: bytes) -> Layer:
    """Return the layer with its rollup from the rollup file, which is the same in both formats."""
    try:
        return replace(layer, rollup=parse_rollup(data))
    except Corrupt as fault:
        raise _of(layer.id, fault) from None


def parse_parent(data: bytes) -> SnapshotId:
    if not _ID.fullmatch(data):
        raise Corrupt(f"its parent is {data[:60]!r}, which is not an id")
    return SnapshotId(data.decode())


def parse_rollup(data: bytes) -> SnapshotId:
    match = _ROLLUP.fullmatch(data)
    if match is None:
        raise Corrupt(f"its rollup is {data[:60]!r}, which is not a version and an id")
    return SnapshotId(match[1].decode())


def _names(values: bytes) -> tuple[SnapshotId, ...]:
    # A cast: there may be very many ids.
    return cast("tuple[SnapshotId, ...]", find_ids(values))


def _of(layer: SnapshotId, fault: Corrupt) -> Corrupt:
    if fault.details.get("layer") == layer:
        return fault
    return Corrupt(f"the layer {layer} cannot be read: {fault.message}", layer=layer)
