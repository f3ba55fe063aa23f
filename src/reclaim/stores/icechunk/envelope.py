"""Envelope of a metadata file: a header of 39 bytes, then the payload in one zstd frame."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import pyarrow as pa

from reclaim.errors import Corrupt, UnknownVersion

MAGIC = b"ICE\xf0\x9f\xa7\x8aCHUNK"
HEADER_BYTES = 39
LARGEST_PAYLOAD = 2**31
"""Maximum size of a FlatBuffer."""
READ_FIRST = 1 << 16
KNOWN_SPECS = (1, 2)

_SPEC, _TYPE, _COMPRESSION = 36, 37, 38
_PLAIN, _ZSTD = 0, 1


class FileType(IntEnum):
    """Kind of a metadata file, as stored in its header."""

    SNAPSHOT = 1
    MANIFEST = 2
    TRANSACTION_LOG = 4
    REPO = 6


@dataclass(frozen=True, slots=True)
class Envelope:
    """Spec version and compression of a file, from its header."""

    spec: int
    compressed: bool


def unwrap(data: bytes, expected: FileType, address: str) -> tuple[int, bytes]:
    """Return spec version and payload of a file of the expected type; errors name ``address``."""
    envelope = read_header(data, expected, address)
    payload = memoryview(data)[HEADER_BYTES:]
    if not envelope.compressed:
        return envelope.spec, bytes(payload)
    return envelope.spec, _decompressed(payload, address)


def read_header(data: bytes, expected: FileType, address: str) -> Envelope:
    if len(data) < HEADER_BYTES or not data.startswith(MAGIC):
        raise Corrupt(
            f"{address} is not a metadata file of Icechunk",
            hint="restore it from a backup; nothing was deleted",
        )
    spec, type, compression = data[_SPEC], data[_TYPE], data[_COMPRESSION]
    if spec not in KNOWN_SPECS:
        raise UnknownVersion(
            f"{address} has version {spec} of the Icechunk format; known are "
            f"{' and '.join(map(str, KNOWN_SPECS))}",
            hint="upgrade Reclaim; nothing was deleted",
        )
    if type != expected:
        raise Corrupt(
            f"{address} has the file type {type}, not {expected.value} "
            f"({expected.name.lower().replace('_', ' ')})",
            hint="find its writer; nothing was deleted",
        )
    if compression not in (_PLAIN, _ZSTD):
        raise UnknownVersion(
            f"{address} has an unknown compression: {compression}",
            hint="upgrade Reclaim; nothing was deleted",
        )
    return Envelope(spec, compression == _ZSTD)


def _decompressed(frame: memoryview, address: str) -> bytes:
    # As a stream: version 1.1 of the library omits the content size from the frame.
    try:
        with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(frame)), "zstd") as stream:
            # A read reserves its full size, and most files are small.
            pieces: list[bytes] = []
            read = 0
            while read <= LARGEST_PAYLOAD and (piece := stream.read(max(READ_FIRST, read))):
                pieces.append(piece)
                read += len(piece)
    except (pa.ArrowException, OSError) as error:
        raise Corrupt(
            f"{address} cannot be decompressed: {str(error).splitlines()[0]}",
            hint="restore it from a backup; nothing was deleted",
        ) from error
    if read > LARGEST_PAYLOAD:
        raise Corrupt(
            f"{address} is larger than any metadata file can be",
            hint="find its writer; nothing was deleted",
        )
    return b"".join(pieces)
