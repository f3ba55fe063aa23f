"""Object storage: one small door to local folders, S3, GCS and Azure, through obstore.

An address is a path relative to the storage's root. Foreign exceptions are translated here
and nowhere else. Writes are atomic: an object is there whole or not at all.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cached_property, lru_cache, partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

import obstore
import pyarrow as pa
from obstore import exceptions as foreign
from obstore.store import LocalStore, MemoryStore, from_url

from reclaim.errors import (
    AlreadyExists,
    Corrupt,
    InvalidInput,
    NotFound,
    OutOfSpace,
    ReclaimError,
    StorageDenied,
    StorageUnavailable,
)
from reclaim.model import StoredObject
from reclaim.urls import path_of

Payload = bytes | Iterator[bytes]

PIECE = 8 * 1024 * 1024
"""How much of a stream goes into one request."""

LISTED_AT_ONCE = 10_000
REQUESTS = 16
UNLINKERS = 8
LISTED = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("last_modified", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)
"""A listing: the columns that every object has."""

RETRY: Any = {
    "max_retries": 8,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=10),
        "base": 2,
    },
}
"""How long a storage that is slow, full of requests or out of reach is asked again."""


class Storage(Protocol):
    """What Reclaim asks of object storage."""

    url: str
    """Where the root is, without credentials."""
    at_once: int
    """How many requests it is worth to have on the way at the same time."""

    def put(self, address: str, data: Payload, *, create: bool = False) -> None:
        """Write an object whole. With ``create`` an existing one is an ``AlreadyExists``."""
        ...

    def get(self, address: str) -> bytes: ...

    def stream(self, address: str) -> Iterator[bytes]:
        """The object's bytes in pieces, for objects that need not fit in memory."""
        ...

    def reader(self, address: str) -> BinaryIO:
        """An object as a file, of which only what is asked for is read."""
        ...

    def head(self, address: str) -> StoredObject: ...

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """Every object below a folder, in no promised order."""
        ...

    def batches(self, prefix: str = "") -> Iterator[pa.RecordBatch]:
        """What ``list`` gives, as batches of ``LISTED``: for prefixes with very many objects."""
        ...

    def folders(self, prefix: str = "") -> tuple[Sequence[str], Sequence[StoredObject]]:
        """What lies directly below a folder: the folders there, and the objects."""
        ...

    def copy(self, source: str, target: str) -> None:
        """Copy inside the storage, without moving the bytes through this process."""
        ...

    def move(self, source: str, target: str, *, size: int, fresh: bool = False) -> None:
        """Move an object inside the storage; the source goes only when the target is whole.

        With ``fresh`` it counts as written now, as it does anyway where moving is copying.
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


class ObjectStorage:
    """A ``Storage`` on anything that obstore can open."""

    def __init__(self, url: str, store: Any) -> None:
        self.url = url
        self._store = store
        self.folder = Path(path_of(url)) if url.startswith("file://") else None
        self.at_once = 1 if self.folder else REQUESTS

    @classmethod
    def open(cls, url: str, *, create: bool = False) -> ObjectStorage:
        """Open the storage at a normalised URL (see ``reclaim.urls``)."""
        with translated("open", url):
            if url.startswith("memory://"):
                return cls(url, MemoryStore())
            if url.startswith("file://"):
                folder = Path(path_of(url))
                if not create and not folder.is_dir():
                    raise NotFound(
                        f"the storage folder {folder} does not exist",
                        hint="mount or restore it; nothing was changed",
                    )
                if create:
                    make_folder(folder)
                return cls(url, LocalStore(folder))
            return cls(url, from_url(url, retry_config=RETRY, **_credentials(url)))

    def put(self, address: str, data: Payload, *, create: bool = False) -> None:
        mode: Any = "create" if create else "overwrite"
        with translated("write", address):
            if isinstance(data, bytes):
                obstore.put(self._store, address, data, mode=mode)
                return
            # An error leaves the block early, and the upload is given up as a whole.
            with obstore.open_writer(self._store, address, buffer_size=PIECE) as upload:
                for piece in data:
                    upload.write(piece)

    def get(self, address: str) -> bytes:
        with translated("read", address):
            return bytes(obstore.get(self._store, address).bytes())

    def stream(self, address: str) -> Iterator[bytes]:
        with translated("read", address):
            for piece in obstore.get(self._store, address).stream():
                yield bytes(piece)

    def reader(self, address: str) -> BinaryIO:
        with translated("read", address):
            return cast(BinaryIO, _Readable(obstore.open_reader(self._store, address)))

    def head(self, address: str) -> StoredObject:
        with translated("look up", address):
            return _stored(obstore.head(self._store, address))

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        with translated("list", prefix or self.url):
            for page in obstore.list(self._store, prefix or None):
                for meta in page:
                    yield _stored(meta)

    def batches(self, prefix: str = "") -> Iterator[pa.RecordBatch]:
        with translated("list", prefix or self.url):
            for page in obstore.list(
                self._store, prefix or None, chunk_size=LISTED_AT_ONCE, return_arrow=True
            ):
                found = pa.record_batch(page)
                columns = [found.column(name) for name in ("path", "size", "last_modified")]
                typed = [c.cast(f.type) for c, f in zip(columns, LISTED, strict=True)]
                yield pa.record_batch(typed, schema=LISTED)

    def folders(self, prefix: str = "") -> tuple[Sequence[str], Sequence[StoredObject]]:
        with translated("list", prefix or self.url):
            found = obstore.list_with_delimiter(self._store, prefix or None)
            return list(found["common_prefixes"]), [_stored(meta) for meta in found["objects"]]

    def copy(self, source: str, target: str) -> None:
        with translated("copy", source):
            obstore.copy(self._store, source, target)

    def move(self, source: str, target: str, *, size: int, fresh: bool = False) -> None:
        if self.folder is not None:
            with translated("move", source):
                _rename(self.folder / source, self.folder / target, size, fresh=fresh)
            return
        self.copy(source, target)
        if (found := self.head(target).size) != size:
            raise Corrupt(f"{source} was copied to {target} as {found} bytes instead of {size}")
        self.delete(source)

    def delete(self, address: str) -> None:
        try:
            with translated("delete", address):
                obstore.delete(self._store, address)
        except NotFound:
            return

    def delete_page(self, addresses: Sequence[str]) -> None:
        with translated("delete", f"{addresses[0]} and {len(addresses) - 1} others"):
            if self.folder is None:
                obstore.delete(self._once, list(addresses))
                return
            # On a disk a delete is a wait, and threads of our own wait for less than obstore's.
            stripes = [addresses[first::UNLINKERS] for first in range(UNLINKERS)]
            for _ in _unlinkers().map(partial(_unlink, str(self.folder)), stripes):
                pass

    @cached_property
    def _once(self) -> Any:
        """The same storage without retries: who deletes wants to know when it is slowed down."""
        if self.url.startswith("memory://"):
            return self._store
        return from_url(self.url, retry_config={"max_retries": 0}, **_credentials(self.url))

    def same(self, first: str, second: str) -> bool:
        if self.head(first).size != self.head(second).size:
            return False
        pieces = zip_longest(_pieces(self.stream(first)), _pieces(self.stream(second)))
        return all(one == other for one, other in pieces)

    def flush(self, addresses: Iterable[str]) -> None:
        if self.folder is None:
            return
        written = list(addresses)
        for address in written:
            with translated("flush", address):
                _fsync(self.folder / address)
        self.flush_moved(written)

    def flush_moved(self, addresses: Iterable[str]) -> None:
        if self.folder is None:
            return
        folders: set[Path] = set()
        for address in addresses:
            path = (self.folder / address).parent
            while path not in folders:
                folders.add(path)
                if path == self.folder:
                    break
                path = path.parent
        for folder in folders:
            with translated("flush", str(folder)):
                _fsync(folder)


def make_folder(folder: Path) -> None:
    """Make a local folder, if it is not there, with the folders above it."""
    with translated("make", str(folder)):
        folder.mkdir(parents=True, exist_ok=True)


def _credentials(url: str) -> dict[str, Any]:
    """Where the keys to a storage come from, if not from the environment alone.

    obstore reads the environment itself. Profiles and the other places where AWS's own tools
    look are read by their library, when it is installed and no keys are in the environment.
    """
    if not url.startswith("s3://") or "AWS_ACCESS_KEY_ID" in os.environ:
        return {}
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider

        return {"credential_provider": Boto3CredentialProvider()}
    except (ImportError, ValueError):
        # Not installed, or it knows no keys: then obstore asks the machine it runs on.
        return {}


@contextmanager
def translated(action: str, address: str) -> Iterator[None]:
    """Turn what obstore and the operating system raise into the tree of ``reclaim.errors``."""
    try:
        yield
    except ReclaimError:
        raise
    except (FileNotFoundError, foreign.NotFoundError) as error:
        raise NotFound(f"cannot {action} {address}: there is no such object") from error
    except (foreign.BaseError, OSError, ValueError) as error:
        raise _translate(action, address, error) from error


def _translate(action: str, address: str, error: Exception) -> ReclaimError:
    said = str(error).split("\n", 1)[0]
    text = str(error)
    what = f"cannot {action} {address}: {said}"
    if isinstance(error, foreign.AlreadyExistsError | foreign.PreconditionError):
        return AlreadyExists(f"cannot {action} {address}: it exists already")
    if isinstance(error, PermissionError | foreign.PermissionDeniedError) or (
        "Permission denied" in text
    ):
        return StorageDenied(what, hint="check the permissions on the storage")
    if isinstance(error, foreign.UnauthenticatedError):
        return StorageDenied(what, hint="check the storage credentials in the environment")
    if "os error 28" in text or "os error 122" in text or getattr(error, "errno", 0) in (28, 122):
        return OutOfSpace(what, hint="free some space and run it again; nothing was half written")
    if isinstance(error, foreign.InvalidPathError | foreign.UnknownConfigurationKeyError):
        return InvalidInput(what)
    if isinstance(error, ValueError):
        return InvalidInput(what)
    if isinstance(error, foreign.NotSupportedError):
        return InvalidInput(what, hint="this storage does not offer it")
    if isinstance(error, foreign.JoinError):
        return Corrupt(what)
    return StorageUnavailable(what, hint="check that the storage is reachable, then try again")


class _Readable(io.RawIOBase):
    """obstore's reader as the file that other libraries expect."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._reader.seek(offset, whence))

    def tell(self) -> int:
        return int(self._reader.tell())

    def read(self, size: int | None = -1) -> bytes:
        return bytes(self._reader.read(None if size is None or size < 0 else size))


def _pieces(stream: Iterable[bytes]) -> Iterator[bytes]:
    """A stream in pieces of one length, however it came."""
    waiting = bytearray()
    for piece in stream:
        waiting += piece
        while len(waiting) >= PIECE:
            yield bytes(waiting[:PIECE])
            del waiting[:PIECE]
    if waiting:
        yield bytes(waiting)


def _stored(meta: Any) -> StoredObject:
    return StoredObject(
        address=meta["path"],
        size=meta["size"],
        last_modified=meta["last_modified"],
        etag=(meta["e_tag"] or "").strip('"'),
    )


def _rename(source: Path, target: Path, size: int, *, fresh: bool) -> None:
    if (found := source.stat().st_size) != size:
        raise Corrupt(f"{source} has {found} bytes instead of {size}")
    if fresh:
        # Before it moves: wherever it is found after a crash, it is not older than this.
        os.utime(source)
    try:
        source.rename(target)
    except FileNotFoundError:
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)


@lru_cache(maxsize=1)
def _unlinkers() -> ThreadPoolExecutor:
    """Threads of this process, made when the first page of files is deleted."""
    return ThreadPoolExecutor(UNLINKERS, thread_name_prefix="reclaim-unlink")


def _unlink(folder: str, addresses: Sequence[str]) -> None:
    for address in addresses:
        with suppress(FileNotFoundError):
            os.unlink(f"{folder}/{address}")  # noqa: PTH108 - very many


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
