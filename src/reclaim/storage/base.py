"""The interface to object storage. An address is a path relative to the storage's root."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import BinaryIO, Protocol, runtime_checkable

import pyarrow as pa

from reclaim.model import StoredObject

Payload = bytes | Iterator[bytes]
LastCheck = Callable[[], None]


def no_check() -> None:
    """Default last check: accept."""


LISTED = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("last_modified", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)
"""A listing: the columns of every object."""


@runtime_checkable
class SwapsObjects(Protocol):
    """A storage that replaces an object only if nobody else has replaced it."""

    @property
    def swaps_atomically(self) -> bool:
        """Return whether the swap is atomic; on a local disk there is a short gap."""
        ...

    def get_version(self, address: str) -> tuple[bytes, str]:
        """Return an object and its version."""
        ...

    def swap(self, address: str, data: bytes, *, version: str) -> None:
        """Replace a version of an object; raise ``Conflict`` if it has another version."""
        ...


class Storage(Protocol):
    """The interface to object storage."""

    url: str
    """URL of the root, without credentials."""
    at_once: int
    """Useful number of parallel requests."""
    reads_at_once: int
    """Useful number of parallel reads of small objects, which mostly wait for answers."""

    def put(self, address: str, data: Payload, *, create: bool = False) -> None:
        """Write an object atomically. With ``create``, raise ``AlreadyExists`` for an existing
        object."""
        ...

    def get(self, address: str) -> bytes: ...

    def get_range(self, address: str, start: int, end: int) -> bytes:
        """The bytes from ``start`` up to ``end``, in one request."""
        ...

    def stream(self, address: str) -> Iterator[bytes]:
        """Yield the bytes of an object in pieces, for objects larger than memory."""
        ...

    def reader(self, address: str) -> BinaryIO:
        """Open an object as a file; only the requested bytes are read."""
        ...

    def head(self, address: str) -> StoredObject: ...

    def list(self, prefix: str = "", *, after: str = "", until: str = "") -> Iterator[StoredObject]:
        """Yield every object below a folder in any order, odd addresses included.

        With boundaries, only those in the ``KeyRange``.
        """
        ...

    def batches(
        self, prefix: str = "", *, after: str = "", until: str = ""
    ) -> Iterator[pa.RecordBatch]:
        """Yield the objects of ``list`` as batches of ``LISTED``, for very many objects.

        In a folder on a disk, also leftovers of killed uploads.
        """
        ...

    def folders(self, prefix: str = "") -> tuple[Sequence[str], Sequence[StoredObject]]:
        """Return the folders and the objects directly below a folder."""
        ...

    def copy(self, source: str, target: str) -> None:
        """Copy inside the storage, without moving bytes through this process."""
        ...

    def move(
        self,
        source: str,
        target: str,
        *,
        size: int,
        fresh: datetime | None = None,
        last_check: LastCheck = no_check,
    ) -> None:
        """Move an object inside the storage; the source is deleted only after the target is
        complete.

        With ``fresh`` the object counts as written at this time; where a move is a copy, it is
        written now anyway.

        ``last_check`` is called right before the source is deleted. If it raises, the source stays;
        where a move is a copy, the copy stays, too.
        """
        ...

    def delete(self, address: str) -> None:
        """Delete an object; a missing object counts as deleted."""
        ...

    def delete_page(self, addresses: Sequence[str]) -> None:
        """Delete several objects in few requests, without retries.

        An error says nothing about single objects: each may be deleted or not. A missing object is
        an error, too.
        """
        ...

    def same(self, first: str, second: str) -> bool:
        """Return whether the first object can replace the second: both hold the same bytes."""
        ...

    def flush(self, addresses: Iterable[str]) -> None:
        """Make written objects survive a power cut, if the storage does not by itself."""
        ...

    def flush_moved(self, addresses: Iterable[str]) -> None:
        """Make moves survive a power cut; the bytes of moved objects were durable before."""
        ...

    def drop_folder(self, folder: str) -> None:
        """Remove an empty folder. Do nothing if it is not empty, or if folders are only parts of
        names."""
        ...
