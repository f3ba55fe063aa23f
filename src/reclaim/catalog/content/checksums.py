"""Checksums: the bytes of an object against what its entry says of them.

An entry carries the SHA-256 of what was put. One that was staged from elsewhere, or uploaded by
its physical address, may have none, or one by another method: then only its size is compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from reclaim.errors import Corrupt

METHOD = "sha256:"


def is_known(checksum: str) -> bool:
    """Whether the bytes can be compared with it."""
    return checksum.startswith(METHOD)


def compared(
    pieces: Iterable[bytes], *, path: str, address: str, size: int, checksum: str
) -> Iterator[bytes]:
    """The same pieces; after the last one ``Corrupt`` if they are not what was put."""
    total = hashlib.sha256()
    length = 0
    for piece in pieces:
        total.update(piece)
        length += len(piece)
        yield piece
    problem = ""
    if length != size:
        problem = f"it has {length:,} bytes instead of {size:,}"
    elif is_known(checksum) and total.hexdigest() != checksum.removeprefix(METHOD).lower():
        problem = "its SHA-256 is not that of what was put"
    if problem:
        raise Corrupt(
            f"the bytes of {path} are damaged: {problem} (at {address})",
            hint="restore the object from a backup or another copy; nothing was changed",
        )
