"""Files as a later version of Icechunk could write them: with fields that are not known yet."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from reclaim.stores.icechunk.envelope import HEADER_BYTES, FileType, unwrap

_SCALARS = {
    FileType.MANIFEST: {0: 12, 3: 1},
    FileType.SNAPSHOT: {0: 12, 1: 12, 3: 8},
    FileType.REPO: {0: 1},
}
"""The slots of the first table whose values are in the table, with their sizes."""


def with_fields(data: bytes, type: FileType, fields: Mapping[int, bytes]) -> bytes:
    """A file with lists of bytes in some slots of its first table, and all else as it was.

    The new table comes before the old payload, because a FlatBuffer points forwards only.
    """
    _, payload = unwrap(data, type, "")
    scalars = _SCALARS[type]
    old = _fields(payload)
    slots = sorted({*old, *fields})
    count = slots[-1] + 1
    table_at = 8 + 4 + 2 * count
    table_at += -table_at % 8
    # Every value has room for the largest.
    size = 4 + 16 * count
    vectors_at = table_at + size
    vectors = b""
    places = {}
    for slot, content in fields.items():
        places[slot] = vectors_at + len(vectors)
        vectors += struct.pack("<I", len(content)) + content + b"\0" * (-len(content) % 4)
    payload_at = vectors_at + len(vectors)
    table = bytearray(size)
    vtable = bytearray(4 + 2 * count)
    struct.pack_into("<HH", vtable, 0, len(vtable), size)
    struct.pack_into("<i", table, 0, table_at - 8)
    for slot in slots:
        at = 4 + 16 * slot
        struct.pack_into("<H", vtable, 4 + 2 * slot, at)
        if slot in fields:
            struct.pack_into("<I", table, at, places[slot] - table_at - at)
        elif slot in scalars:
            table[at : at + scalars[slot]] = payload[old[slot] : old[slot] + scalars[slot]]
        else:
            target = payload_at + old[slot] + struct.unpack_from("<I", payload, old[slot])[0]
            struct.pack_into("<I", table, at, target - table_at - at)
    start = struct.pack("<I", table_at) + b"Ichk" + vtable
    changed = start.ljust(table_at, b"\0") + table + vectors + payload
    return data[: HEADER_BYTES - 1] + b"\0" + changed


def _fields(payload: bytes) -> dict[int, int]:
    """The position of the value in each slot of the first table."""
    table = struct.unpack_from("<I", payload)[0]
    vtable = table - struct.unpack_from("<i", payload, table)[0]
    size = struct.unpack_from("<H", payload, vtable)[0]
    offsets = struct.unpack_from(f"<{(size - 4) // 2}H", payload, vtable + 4)
    return {slot: table + offset for slot, offset in enumerate(offsets) if offset}
