"""Manifests: chunk references of arrays. Decoded by columns, without a loop over refs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reclaim.stores.icechunk.decoding import decoding
from reclaim.stores.icechunk.envelope import FileType, unwrap
from reclaim.stores.icechunk.flatbuffer import Damaged, FlatBuffer, Tables
from reclaim.stores.icechunk.object_ids import ID_BYTES, Ids, name

_ID, _ARRAYS, _MANIFEST_EXTRA, _MANIFEST_SLOTS = 0, 1, 4, 5
_REFS, _ARRAY_EXTRA, _ARRAY_SLOTS = 1, 2, 3
_INLINE, _OFFSET, _LENGTH, _CHUNK_ID, _LOCATION, _PACKED_LOCATION = 1, 2, 3, 4, 5, 8
_REF_EXTRA, _REF_SLOTS = 9, 10


@dataclass(frozen=True, slots=True)
class Manifest:
    """Refs of a manifest. Only native refs are objects of the repository."""

    id: str
    spec: int
    chunks: Ids
    """Chunk of each native ref; several refs may share a chunk."""
    refs: int
    inline: int
    virtual: int


def decode_manifest(data: bytes, address: str) -> Manifest:
    """Decode a manifest from the bytes of a file; errors name ``address``."""
    spec, payload = unwrap(data, FileType.MANIFEST, address)
    return decode_payload(payload, spec, address)


def decode_payload(payload: bytes, spec: int, address: str) -> Manifest:
    """Decode a manifest from decompressed bytes."""
    with decoding(address):
        return _decode(payload, spec)


def chunk_ends(data: bytes, address: str) -> npt.NDArray[np.uint64]:
    """Minimum size of the chunk of each native ref, in the order of ``chunks``."""
    _, payload = unwrap(data, FileType.MANIFEST, address)
    with decoding(address):
        buffer = FlatBuffer(payload)
        refs = _refs(buffer)
        native = refs.has(_CHUNK_ID)
        ends: npt.NDArray[np.uint64] = refs.numbers(_OFFSET, "<u8") + refs.numbers(_LENGTH, "<u8")
        return ends[native]


def _refs(buffer: FlatBuffer) -> Tables:
    positions = []
    for array in buffer.root.tables(_ARRAYS):
        array.check_slots(_ARRAY_SLOTS, empty=(_ARRAY_EXTRA,))
        positions.append(array.targets(_REFS))
    return Tables(buffer, np.concatenate(positions) if positions else np.empty(0, np.int64))


def _decode(payload: bytes, spec: int) -> Manifest:
    buffer = FlatBuffer(payload)
    root = buffer.root
    root.check_slots(_MANIFEST_SLOTS, empty=(_MANIFEST_EXTRA,))
    id = root.fixed(_ID, ID_BYTES)
    if id is None:
        raise Damaged("it has no id")
    refs = _refs(buffer)
    refs.check_slots(_REF_SLOTS, empty=(_REF_EXTRA,))
    inline, native = refs.has(_INLINE), refs.has(_CHUNK_ID)
    virtual = refs.has(_LOCATION) | refs.has(_PACKED_LOCATION)
    kinds = inline.astype(np.int8) + native + virtual
    if (kinds != 1).any():
        raise Damaged("a ref is not of exactly one kind: inline, native or virtual")
    return Manifest(
        id=name(id),
        spec=spec,
        chunks=refs.fixed(_CHUNK_ID, ID_BYTES, native),
        refs=len(refs),
        inline=int(inline.sum()),
        virtual=int(virtual.sum()),
    )
