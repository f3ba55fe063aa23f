"""Checksums: verification of an object's bytes against its entry.

An entry holds the SHA-256 of the uploaded bytes. Entries staged from outside or uploaded to a
physical address may have no checksum or another method; then only the size is compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from reclaim.errors import Corrupt

METHOD = "sha256:"


def is_known(checksum: str) -> bool:
    """Whether bytes can be verified with this checksum."""
    return checksum.startswith(METHOD)


def compared(
    pieces: Iterable[bytes], *, path: str, address: str, size: int, checksum: str
) -> Iterator[bytes]:
    """Yield the pieces unchanged; after the last, raise ``Corrupt`` if they do not match."""
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
        problem = "its SHA-256 does not match the upload"
    if problem:
        raise Corrupt(
            f"the bytes of {path} are damaged: {problem} (at {address})",
            hint="restore the object from a backup or another copy; nothing was changed",
        )
