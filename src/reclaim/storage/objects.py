"""Object storage: a single interface to local folders, S3, GCS and Azure, through obstore.

Writes are atomic: an object exists completely or not at all. In a local folder listings, deletes
and moves follow no links (see ``local_folder``).
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import obstore
import pyarrow as pa
from obstore import exceptions as foreign
from obstore.store import LocalStore, MemoryStore, from_url

from reclaim.clock import from_micros
from reclaim.errors import (
    Conflict,
    Corrupt,
    InvalidInput,
    NotFound,
)
from reclaim.model import StoredObject
from reclaim.storage.base import LISTED, LastCheck, Payload, no_check
from reclaim.storage.bounded import Bounded
from reclaim.storage.key_range import KeyRange
from reclaim.storage.local_folder import (
    LISTED_AT_ONCE,
    Files,
    LocalFolder,
    address_text,
    changed_at,
)
from reclaim.storage.translation import translated
from reclaim.urls import check_characters, path_of

if TYPE_CHECKING:
    from reclaim.storage.buckets import Bucket

LISTED_IN_RANGE = 1_000
"""Keys read at once from a range with an end: as many as S3 returns in a single answer."""

PIECE = 8 * 1024 * 1024
"""Bytes of a stream in each request."""

REQUESTS = 16
SMALL_READS = 64
"""Answers waited for at once. A server 20 ms away then receives some thousand requests a second, as
many as a process can decode."""
RETRY: Any = {
    "max_retries": 8,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=10),
        "base": 2,
    },
}
"""Retries for a storage that is slow, overloaded or unreachable."""

UNREADABLE_KEY = (foreign.InvalidPathError, ValueError)
"""Errors of obstore for keys, or requested folders, it does not accept."""


class ObjectStorage:
    """A ``Storage`` on anything obstore can open."""

    def __init__(self, url: str, store: Any) -> None:
        self.url = url
        self._store = store
        self.folder = Path(path_of(url)) if url.startswith("file://") else None
        self._local = LocalFolder(self.folder) if self.folder else None
        self.at_once = 1 if self.folder else REQUESTS
        self.reads_at_once = 1 if self.folder else SMALL_READS

    @classmethod
    def open(cls, url: str, *, create: bool = False) -> ObjectStorage:
        """Open the storage at a normalised URL (see ``reclaim.urls``)."""
        check_characters(url)
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
            # An error leaves the block early, and aborts the whole upload.
            with obstore.open_writer(self._store, address, buffer_size=PIECE) as upload:
                for piece in data:
                    upload.write(piece)

    def get(self, address: str) -> bytes:
        with translated("read", address):
            return bytes(obstore.get(self._store, address).bytes())

    def get_range(self, address: str, start: int, end: int) -> bytes:
        with translated("read", address):
            return bytes(obstore.get_range(self._store, address, start=start, end=end))

    @property
    def swaps_atomically(self) -> bool:
        return self._local is None

    def get_version(self, address: str) -> tuple[bytes, str]:
        with translated("read", address):
            answer = obstore.get(self._store, address)
            return bytes(answer.bytes()), answer.meta["e_tag"] or ""

    def swap(self, address: str, data: bytes, *, version: str) -> None:
        changed = Conflict(
            f"{address} was changed by somebody else meanwhile",
            hint="read it again, then try again",
        )
        with translated("replace", address):
            if self._local is not None:
                # A disk cannot compare and write at once.
                if self.get_version(address)[1] != version:
                    raise changed
                obstore.put(self._store, address, data)
                return
            try:
                obstore.put(self._store, address, data, mode={"e_tag": version})
            except foreign.PreconditionError as error:
                raise changed from error

    def stream(self, address: str) -> Iterator[bytes]:
        with translated("read", address):
            for piece in obstore.get(self._store, address).stream():
                yield bytes(piece)

    def reader(self, address: str) -> BinaryIO:
        with translated("read", address):
            return cast(BinaryIO, _Readable(obstore.open_reader(self._store, address)))

    def head(self, address: str) -> StoredObject:
        with translated("look up", address):
            if self._local is not None:
                status = self._local.status(address)
                changed = from_micros(changed_at(status, address))
                return StoredObject(address, status.st_size, changed)
            return _stored(obstore.head(self._store, address))

    def list(self, prefix: str = "", *, after: str = "", until: str = "") -> Iterator[StoredObject]:
        with translated("list", prefix or self.url):
            if self._local is not None:
                for files in self._local.files(prefix, after=after, until=until):
                    yield from _files(files)
                return
            last = after
            keys = Bounded(KeyRange(prefix, after, until))
            try:
                for page in obstore.list(self._store, prefix or None, offset=keys.offset):
                    for meta in page:
                        last = meta["path"]
                        if keys.has(last):
                            yield _stored(meta)
                    if keys.ended:
                        return
            except UNREADABLE_KEY as error:
                remaining = self._bucket(error).objects(_below(prefix), after=last)
                yield from keys.until_ended(remaining)

    def batches(
        self, prefix: str = "", *, after: str = "", until: str = ""
    ) -> Iterator[pa.RecordBatch]:
        with translated("list", prefix or self.url):
            if self._local is not None:
                files = self._local.files(prefix, after=after, until=until, uploads=True)
                yield from map(_batch, files)
                return
            last = after
            keys = Bounded(KeyRange(prefix, after, until))
            # Requests beyond the end of a range are wasted.
            at_once = LISTED_IN_RANGE if until else LISTED_AT_ONCE
            try:
                for page in obstore.list(
                    self._store,
                    prefix or None,
                    offset=keys.offset,
                    chunk_size=at_once,
                    return_arrow=True,
                ):
                    batch = pa.record_batch(page)
                    columns = [batch.column(name) for name in ("path", "size", "last_modified")]
                    typed = [c.cast(f.type) for c, f in zip(columns, LISTED, strict=True)]
                    yield keys.only(pa.record_batch(typed, schema=LISTED))
                    if keys.ended:
                        return
                    last = columns[0][-1].as_py() if batch.num_rows else last
            except UNREADABLE_KEY as error:
                remaining = keys.until_ended(
                    self._bucket(error).objects(_below(prefix), after=last)
                )
                while rows := list(islice(remaining, LISTED_AT_ONCE)):
                    yield _as_batch(rows)

    def folders(self, prefix: str = "") -> tuple[Sequence[str], Sequence[StoredObject]]:
        with translated("list", prefix or self.url):
            if self._local is not None:
                folders, files = self._local.inside(prefix)
                return [address_text(folder) for folder in folders], list(_files(files))
            try:
                listing = obstore.list_with_delimiter(self._store, prefix or None)
            except UNREADABLE_KEY as error:
                return self._bucket(error).inside(_below(prefix))
            return list(listing["common_prefixes"]), [_stored(meta) for meta in listing["objects"]]

    def copy(self, source: str, target: str) -> None:
        self._copy(source, target, self.head(source).size if self._is_s3 else 0)

    def _copy(self, source: str, target: str, size: int) -> None:
        with translated("copy", source):
            if self._local is not None:
                self._local.copy(source, target)
            elif self._is_s3:
                self._copy_in_bucket(source, target, size)
            else:
                obstore.copy(self._store, source, target)

    def _copy_in_bucket(self, source: str, target: str, size: int) -> None:
        from reclaim.storage import buckets

        if size > buckets.LARGEST_COPY:
            buckets.open_bucket(self.url).copy(source, target, size)
        else:
            obstore.copy(self._store, source, target)

    @property
    def _is_s3(self) -> bool:
        return self.url.startswith("s3://")

    def move(
        self,
        source: str,
        target: str,
        *,
        size: int,
        fresh: datetime | None = None,
        last_check: LastCheck = no_check,
    ) -> None:
        if self._local is not None:
            with translated("move", source):
                self._local.move(source, target, size=size, fresh=fresh, last_check=last_check)
            return
        self._copy(source, target, size)
        if (copied_size := self.head(target).size) != size:
            raise Corrupt(
                f"{source} was copied to {target} as {copied_size} bytes instead of {size}"
            )
        # A copy can take longer than any other request.
        last_check()
        self.delete(source)

    def delete(self, address: str) -> None:
        try:
            with translated("delete", address):
                if self._local is not None:
                    self._local.delete([address])
                else:
                    obstore.delete(self._store, address)
        except NotFound:
            return

    def delete_page(self, addresses: Sequence[str]) -> None:
        with translated("delete", f"{addresses[0]} and {len(addresses) - 1} others"):
            if self._local is not None:
                self._local.delete(addresses)
            else:
                obstore.delete(self._without_retries, list(addresses))

    def _bucket(self, error: Exception) -> Bucket:
        """Return a client for keys obstore cannot list."""
        if not self._is_s3:
            raise InvalidInput(
                f"{self.url} has a key that cannot be listed: {str(error).splitlines()[0]}",
                hint="rename or remove that object, then run it again",
            ) from error
        from reclaim.storage import buckets

        return buckets.open_bucket(self.url)

    @cached_property
    def _without_retries(self) -> Any:
        """The same storage without retries: a delete must notice when it is slowed down."""
        if self.url.startswith("memory://"):
            return self._store
        return from_url(self.url, retry_config={"max_retries": 0}, **_credentials(self.url))

    def same(self, first: str, second: str) -> bool:
        if self.head(first).size != self.head(second).size:
            return False
        pieces = zip_longest(_pieces(self.stream(first)), _pieces(self.stream(second)))
        return all(left == right for left, right in pieces)

    def flush(self, addresses: Iterable[str]) -> None:
        if self._local is None:
            return
        written = list(addresses)
        for address in written:
            with translated("flush", address):
                self._local.flush(address)
        self.flush_moved(written)

    def drop_folder(self, folder: str) -> None:
        if self._local is not None:
            with translated("remove", folder):
                self._local.drop_folder(folder)

    def flush_moved(self, addresses: Iterable[str]) -> None:
        if self._local is None:
            return
        folders: set[str] = set()
        for address in addresses:
            folder = address.rpartition("/")[0]
            while folder not in folders:
                folders.add(folder)
                folder = folder.rpartition("/")[0]
        for folder in folders:
            with translated("flush", folder or self.url):
                self._local.flush_folder(folder)


def make_folder(folder: Path, *, private: bool = False) -> None:
    """Make a missing local folder, with its parents.

    With ``private`` only its owner may enter it; an existing folder stays as it is.
    """
    blocking = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    if blocking.exists() and not blocking.is_dir():
        raise InvalidInput(f"{blocking} is a file, not a folder", hint="name a folder")
    with translated("make", str(folder)):
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            folder.mkdir(mode=0o700 if private else 0o777)
        except FileExistsError:
            if not folder.is_dir():
                raise


def _credentials(url: str) -> dict[str, Any]:
    """Return the source of storage credentials, if not only from the environment.

    obstore reads the environment itself. Profiles and other sources of AWS tools are read by boto3,
    if it is installed and the environment has no keys.
    """
    if not url.startswith("s3://") or "AWS_ACCESS_KEY_ID" in os.environ:
        return {}
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider

        return {"credential_provider": Boto3CredentialProvider()}
    except (ImportError, ValueError):
        # Not installed, or without keys: then obstore asks the machine it runs on.
        return {}


class _Readable(io.RawIOBase):
    """obstore's reader as a file for other libraries."""

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
    """Yield a stream in pieces of equal length."""
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


def _files(files: Files) -> Iterator[StoredObject]:
    for address, size, changed in zip(*files, strict=True):
        yield StoredObject(address_text(address), size, from_micros(changed))


def _below(folder: str) -> str:
    """Return the common prefix of all keys in a folder."""
    return f"{folder}/" if folder and not folder.endswith("/") else folder


def _as_batch(rows: Sequence[StoredObject]) -> pa.RecordBatch:
    columns = zip(*((row.address, row.size, row.last_modified) for row in rows), strict=True)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, LISTED, strict=True)]
    return pa.record_batch(arrays, schema=LISTED)


def _batch(files: Files) -> pa.RecordBatch:
    try:
        addresses = pa.array(files.addresses, pa.string())
    except UnicodeEncodeError:
        addresses = pa.array(map(address_text, files.addresses), pa.string())
    sizes = pa.array(files.sizes, pa.int64())
    changed = pa.array(files.changed, pa.int64()).cast(LISTED.field("last_modified").type)
    return pa.record_batch([addresses, sizes, changed], schema=LISTED)
