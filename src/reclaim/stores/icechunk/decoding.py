"""Error boundary of the decoders: every error keeps data, and names the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from reclaim.errors import Corrupt, UnknownVersion
from reclaim.stores.icechunk.flatbuffer import Damaged, UnknownSlot


@contextmanager
def decoding(address: str) -> Iterator[None]:
    """Decode a file in a block; refuse unknown versions, raise ``Corrupt`` for damage."""
    try:
        yield
    except UnknownSlot as error:
        raise UnknownVersion(
            f"{address} was written by a later version of Icechunk: {error}",
            hint="upgrade Reclaim; nothing was deleted",
        ) from error
    except (Damaged, UnicodeDecodeError, OverflowError) as error:
        raise Corrupt(
            f"{address} cannot be read: {error}",
            hint="restore it from a backup; nothing was deleted",
        ) from error
