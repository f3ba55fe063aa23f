"""The version of a store's files, as a server notes it in ``STORAGE_VERSION``."""

from __future__ import annotations

from reclaim.errors import UnknownVersion

FILE = "STORAGE_VERSION"
SUPPORTED = b"2"


def check_version(data: bytes | None) -> bool:
    """Whether a server keeps this store: only servers write the file, a bare library does not.

    Any version but ours is an ``UnknownVersion``: its layers may hold ids in other ways.
    """
    if data is None:
        return False
    if data.strip() != SUPPORTED:
        raise UnknownVersion(
            f"{FILE} is {data[:20]!r}; this program knows version {SUPPORTED.decode()}",
            hint="upgrade the store with its own tools, or use a newer release of this program",
        )
    return True
