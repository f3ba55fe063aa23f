"""Storage wrappers between the code under test and real storage."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import BinaryIO

import pyarrow as pa

from reclaim.clock import Clock
from reclaim.model import StoredObject
from reclaim.storage import (
    LISTED,
    LastCheck,
    ObjectStorage,
    Payload,
    Storage,
    SwapsObjects,
    no_check,
)


class StorageWrapper:
    """Passes every call on. Subclasses override some calls."""

    def __init__(self, inner: Storage) -> None:
        self.inner = inner
        self.url = inner.url
        self.at_once = inner.at_once
        self.reads_at_once = inner.reads_at_once

    def put(self, address: str, data: Payload, *, create: bool = False) -> None:
        self.inner.put(address, data, create=create)

    def get(self, address: str) -> bytes:
        return self.inner.get(address)

    def get_range(self, address: str, start: int, end: int) -> bytes:
        return self.inner.get_range(address, start, end)

    @property
    def swaps_atomically(self) -> bool:
        return self._swapping.swaps_atomically

    def get_version(self, address: str) -> tuple[bytes, str]:
        return self._swapping.get_version(address)

    def swap(self, address: str, data: bytes, *, version: str) -> None:
        self._swapping.swap(address, data, version=version)

    @property
    def _swapping(self) -> SwapsObjects:
        assert isinstance(self.inner, SwapsObjects)
        return self.inner

    def stream(self, address: str) -> Iterator[bytes]:
        return self.inner.stream(address)

    def reader(self, address: str) -> BinaryIO:
        return self.inner.reader(address)

    def head(self, address: str) -> StoredObject:
        return self.inner.head(address)

    def list(self, prefix: str = "", *, after: str = "", until: str = "") -> Iterator[StoredObject]:
        return self.inner.list(prefix, after=after, until=until)

    def batches(
        self, prefix: str = "", *, after: str = "", until: str = ""
    ) -> Iterator[pa.RecordBatch]:
        return self.inner.batches(prefix, after=after, until=until)

    def folders(self, prefix: str = "") -> tuple[Sequence[str], Sequence[StoredObject]]:
        return self.inner.folders(prefix)

    def copy(self, source: str, target: str) -> None:
        self.inner.copy(source, target)

    def move(
        self,
        source: str,
        target: str,
        *,
        size: int,
        fresh: datetime | None = None,
        last_check: LastCheck = no_check,
    ) -> None:
        self.inner.move(source, target, size=size, fresh=fresh, last_check=last_check)

    def delete(self, address: str) -> None:
        self.inner.delete(address)

    def delete_page(self, addresses: Sequence[str]) -> None:
        self.inner.delete_page(addresses)

    def same(self, first: str, second: str) -> bool:
        return self.inner.same(first, second)

    def flush(self, addresses: Iterable[str]) -> None:
        self.inner.flush(addresses)

    def flush_moved(self, addresses: Iterable[str]) -> None:
        self.inner.flush_moved(addresses)

    def drop_folder(self, folder: str) -> None:
        self.inner.drop_folder(folder)


class ClockedStorage(StorageWrapper):
    """Storage whose clock is a ``Clock``: written objects carry its time.

    In a local folder the files themselves get this time, so other processes see it, too; elsewhere
    this object remembers it. ``skew`` moves the storage's clock off the other clock.
    """

    def __init__(self, inner: Storage, clock: Clock, *, skew: timedelta = timedelta(0)) -> None:
        super().__init__(inner)
        self._clock = clock
        self._times: dict[str, datetime] = {}
        self._folder = inner.folder if isinstance(inner, ObjectStorage) else None
        self.skew = skew

    def date(self, times: Mapping[str, datetime]) -> None:
        """Set the times of objects, as if written then at another place."""
        for address, when in times.items():
            self._date(address, when)

    def put(self, address: str, data: Payload, *, create: bool = False) -> None:
        super().put(address, data, create=create)
        self._stamp(address)

    def swap(self, address: str, data: bytes, *, version: str) -> None:
        super().swap(address, data, version=version)
        self._stamp(address)

    def copy(self, source: str, target: str) -> None:
        super().copy(source, target)
        self._stamp(target)

    def move(
        self,
        source: str,
        target: str,
        *,
        size: int,
        fresh: datetime | None = None,
        last_check: LastCheck = no_check,
    ) -> None:
        super().move(source, target, size=size, fresh=fresh, last_check=last_check)
        if self._folder is None:
            self._stamp(target)

    def head(self, address: str) -> StoredObject:
        return self._dated(super().head(address))

    def list(self, prefix: str = "", *, after: str = "", until: str = "") -> Iterator[StoredObject]:
        return (self._dated(stored) for stored in super().list(prefix, after=after, until=until))

    def batches(
        self, prefix: str = "", *, after: str = "", until: str = ""
    ) -> Iterator[pa.RecordBatch]:
        if self._folder is not None:
            return super().batches(prefix, after=after, until=until)
        return as_batches(self.list(prefix, after=after, until=until))

    def _stamp(self, address: str) -> None:
        self._date(address, self._clock.now() + self.skew)

    def _date(self, address: str, when: datetime) -> None:
        if self._folder is None:
            self._times[address] = when
        else:
            seconds = when.timestamp()
            # Another process may have removed it by now.
            with suppress(FileNotFoundError):
                os.utime(self._folder / address, (seconds, seconds))

    def _dated(self, stored: StoredObject) -> StoredObject:
        when = self._times.get(stored.address)
        return replace(stored, last_modified=when) if when else stored


def as_batches(listed: Iterable[StoredObject]) -> Iterator[pa.RecordBatch]:
    """Return a listing in the form of ``Storage.batches``."""
    rows = [(stored.address, stored.size, stored.last_modified) for stored in listed]
    if rows:
        columns = zip(*rows, strict=True)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, LISTED, strict=True)]
        yield pa.record_batch(arrays, schema=LISTED)
