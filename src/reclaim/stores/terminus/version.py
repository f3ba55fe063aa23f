"""Version of a store's files, as noted by a server in ``STORAGE_VERSION``."""

from __future__ import annotations

from reclaim.errors import UnknownVersion

FILE = "STORAGE_VERSION"
SUPPORTED = b"2"


def check_version(data: bytes | None) -> bool:
    """Whether a server keeps this store: only servers write the file, the bare library does not.

    Raise ``UnknownVersion`` for all but the supported version: layers of other versions may encode
    ids differently.
    """
    if data is None:
        return False
    if data.strip() != SUPPORTED:
        raise UnknownVersion(
            f"{FILE} is {data[:20]!r}; this program knows version {SUPPORTED.decode()}",
            hint="upgrade the store with its own tools, or use a newer release of this program",
        )
    return True
