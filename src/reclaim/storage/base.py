"""The interface to object storage. An address is a path relative to the storage's root."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import BinaryIO, Protocol, runtime_checkable

import pyarrow as pa

from reclaim.model import StoredObject

Payload = bytes | Iterator[bytes]
LastCheck = Callable[[], None]


def unchecked() -> None:
    """The last check of whoever has nothing to check."""


LISTED = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("last_modified", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)
"""A listing: the columns that every object has."""


@runtime_checkable
class SwapsObjects(Protocol):
    """A storage in which an object can be replaced if nobody else has replaced it."""

    @property
    def swaps_atomically(self) -> bool:
        """Whether nobody can come in between; on a local disk somebody can, for a moment."""
        ...

    def get_version(self, address: str) -> tuple[bytes, str]:
        """An object, and the version of it that this is."""
        ...

    def swap(self, address: str, data: bytes, *, version: str) -> None:
        """Write an object in the place of a version of it; a ``Conflict`` if it has another."""
        ...


class Storage(Protocol):
    """The interface to object storage."""

    url: str
    """Where the root is, without credentials."""
    at_once: int
    """How many requests it is worth to have on the way at the same time."""
    reads_at_once: int
    """The same of reads of small objects, which wait for their answers and do little else."""

    def put(self, address: str, data: Payload, *, create: bool = False) -> None:
        """Write an object whole. With ``create`` an existing one is an ``AlreadyExists``."""
        ...

    def get(self, address: str) -> bytes: ...

    def get_range(self, address: str, start: int, end: int) -> bytes:
        """The bytes from ``start`` up to ``end``, in one request."""
        ...

    def stream(self, address: str) -> Iterator[bytes]:
        """The object's bytes in pieces, for objects that need not fit in memory."""
        ...

    def reader(self, address: str) -> BinaryIO:
        """An object as a file, of which only what is asked for is read."""
        ...

    def head(self, address: str) -> StoredObject: ...

    def list(self, prefix: str = "", *, after: str = "", until: str = "") -> Iterator[StoredObject]:
        """Every object below a folder, in no promised order; odd addresses are among them.

        With boundaries those alone that a ``KeyRange`` has.
        """
        ...

    def batches(
        self, prefix: str = "", *, after: str = "", until: str = ""
    ) -> Iterator[pa.RecordBatch]:
        """The objects of ``list``, as batches of ``LISTED``: for prefixes with very many.

        In a folder on a disk also what uploads left there that were killed.
        """
        ...

    def folders(self, prefix: str = "") -> tuple[Sequence[str], Sequence[StoredObject]]:
        """The folders directly below a folder, and the objects there."""
        ...

    def copy(self, source: str, target: str) -> None:
        """Copy inside the storage, without moving the bytes through this process."""
        ...

    def move(
        self,
        source: str,
        target: str,
        *,
        size: int,
        fresh: datetime | None = None,
        last_check: LastCheck = unchecked,
    ) -> None:
        """Move an object inside the storage; the source goes only when the target is whole.

        With ``fresh`` it counts as written then; where moving is copying it is written now anyway.

        ``last_check`` is asked right before the source goes. If it raises, the source stays; where
        moving is copying, the copy stays too.
        """
        ...

    def delete(self, address: str) -> None:
        """Delete an object; one that is not there counts as deleted."""
        ...

    def delete_page(self, addresses: Sequence[str]) -> None:
        """Delete several objects in few requests, asking once.

        An error says nothing of the single objects: any of them may be gone or still there, and
        one that was not there is an error too.
        """
        ...

    def same(self, first: str, second: str) -> bool:
        """Whether the first object can stand for the second: it holds the same bytes."""
        ...

    def flush(self, addresses: Iterable[str]) -> None:
        """Make written objects survive a power cut, where the storage does not do so itself."""
        ...

    def flush_moved(self, addresses: Iterable[str]) -> None:
        """Make moves survive a power cut; the bytes of what was moved lasted before."""
        ...

    def drop_folder(self, folder: str) -> None:
        """Remove a folder in which nothing is. Where folders are only parts of names, or if
        something is in it, nothing happens."""
        ...
