"""Snapshots: their manifests, time and message and, in spec 1, their parent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt

from reclaim.clock import from_micros
from reclaim.stores.icechunk.decoding import decoding
from reclaim.stores.icechunk.envelope import FileType, unwrap
from reclaim.stores.icechunk.flatbuffer import Damaged, FlatBuffer, FlatTable, Tables, UnknownSlot
from reclaim.stores.icechunk.object_ids import ID_BYTES, Ids, name

_ID, _PARENT, _NODES, _FLUSHED_AT, _MESSAGE = 0, 1, 2, 3, 4
_MANIFESTS_1, _MANIFESTS_2, _EXTRA, _SLOTS = 6, 7, 8, 9
_INFO_ID, _INFO_SIZE, _INFO_REFS, _INFO_EXTRA, _INFO_SLOTS = 0, 1, 2, 3, 4
_NODE_TYPE, _NODE_DATA, _NODE_EXTRA, _NODE_SLOTS = 3, 4, 5, 6
_ARRAY_MANIFESTS, _ARRAY_SLOTS = 2, 4
_REF_ID, _REF_SLOTS = 0, 2
_ARRAY, _GROUP = 1, 2

_INFO_STRUCT = np.dtype(
    {
        "names": ["id", "size", "refs"],
        "formats": [f"V{ID_BYTES}", "<u8", "<u4"],
        "offsets": [0, 16, 24],
        "itemsize": 32,
    }
)


@dataclass(frozen=True, slots=True)
class ManifestInfos:
    """Manifests listed by a snapshot: ids, sizes in bytes and numbers of refs."""

    ids: Ids
    sizes: npt.NDArray[np.uint64]
    refs: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.ids)


NO_MANIFESTS = ManifestInfos(
    np.empty((0, ID_BYTES), np.uint8), np.empty(0, np.uint64), np.empty(0, np.uint32)
)


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    """Position of a snapshot in the history. In spec 2 its parent is only in ``repo``."""

    id: str
    spec: int
    parent: str | None
    written_at: datetime
    message: str


@dataclass(frozen=True, slots=True)
class SnapshotFile(SnapshotHeader):
    """A snapshot as described by its own file."""

    manifests: ManifestInfos
    nodes: int


def decode_snapshot(data: bytes, address: str) -> SnapshotFile:
    """Decode a snapshot from the bytes of a file; errors name ``address``."""
    spec, payload = unwrap(data, FileType.SNAPSHOT, address)
    with decoding(address):
        return _decode(payload, spec)


def decode_header(data: bytes, address: str) -> SnapshotHeader:
    """Decode the position of a snapshot in the history, without its dependencies."""
    spec, payload = unwrap(data, FileType.SNAPSHOT, address)
    with decoding(address):
        return _header(FlatBuffer(payload).root, spec)


def _decode(payload: bytes, spec: int) -> SnapshotFile:
    buffer = FlatBuffer(payload)
    root = buffer.root
    header = _header(root, spec)
    manifests = _manifests(root)
    nodes = Tables(buffer, root.targets(_NODES))
    _check_nodes(nodes, manifests)
    return SnapshotFile(
        id=header.id,
        spec=spec,
        parent=header.parent,
        written_at=header.written_at,
        message=header.message,
        manifests=manifests,
        nodes=len(nodes),
    )


def _header(root: FlatTable, spec: int) -> SnapshotHeader:
    root.check_slots(_SLOTS, empty=(_EXTRA,))
    id, parent = root.fixed(_ID, ID_BYTES), root.fixed(_PARENT, ID_BYTES)
    if id is None:
        raise Damaged("it has no id")
    return SnapshotHeader(
        id=name(id),
        spec=spec,
        parent=None if parent is None else name(parent),
        written_at=from_micros(root.number(_FLUSHED_AT, "<Q")),
        message=root.text(_MESSAGE) or "",
    )


def _manifests(root: FlatTable) -> ManifestInfos:
    """Both lists of manifests together: each spec fills only its own list."""
    structs = root.items(_MANIFESTS_1, _INFO_STRUCT)
    first = np.ascontiguousarray(structs["id"]).view(np.uint8).reshape(len(structs), ID_BYTES)
    positions = root.targets(_MANIFESTS_2)
    if not len(positions):
        return ManifestInfos(first, structs["size"], structs["refs"])
    tables = Tables(root.buffer, positions)
    tables.check_slots(_INFO_SLOTS, empty=(_INFO_EXTRA,))
    everyone = np.ones(len(tables), np.bool_)
    return ManifestInfos(
        ids=np.concatenate([first, tables.fixed(_INFO_ID, ID_BYTES, everyone)]),
        sizes=np.concatenate([structs["size"], tables.numbers(_INFO_SIZE, "<u8")]),
        refs=np.concatenate([structs["refs"], tables.numbers(_INFO_REFS, "<u4")]),
    )


def _check_nodes(nodes: Tables, manifests: ManifestInfos) -> None:
    """Refuse a node with a manifest not listed by the snapshot: its chunks would be lost."""
    nodes.check_slots(_NODE_SLOTS, empty=(_NODE_EXTRA,))
    types = nodes.numbers(_NODE_TYPE, "u1")
    if not ((types == _ARRAY) | (types == _GROUP)).all():
        raise UnknownSlot("a node is neither an array nor a group")
    buffer = nodes.buffer
    arrays = Tables(buffer, nodes.targets(_NODE_DATA, types == _ARRAY))
    arrays.check_slots(_ARRAY_SLOTS)
    lists = arrays.targets(_ARRAY_MANIFESTS, np.ones(len(arrays), np.bool_))
    positions = [np.empty(0, np.int64), *map(buffer.targets, lists.tolist())]
    refs = Tables(buffer, np.concatenate(positions))
    refs.check_slots(_REF_SLOTS)
    named = refs.fixed(_REF_ID, ID_BYTES, np.ones(len(refs), np.bool_))
    if not np.isin(_keys(named), _keys(manifests.ids)).all():
        raise Damaged("an array has a manifest missing in the list of manifests")


def _keys(ids: Ids) -> npt.NDArray[np.bytes_]:
    """Ids as comparable scalars. Trailing zero bytes are significant."""
    ended = np.concatenate([ids, np.ones((len(ids), 1), np.uint8)], axis=1)
    return np.ascontiguousarray(ended).view(f"S{ID_BYTES + 1}").reshape(len(ids))
