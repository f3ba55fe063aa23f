"""Storage with faults: failing calls, and listings that are old or cut off.

A *fault* is a function called before each storage call, with the name of the call and the address;
it may raise, wait or move a clock. Faults are combined in a list.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import BinaryIO

import pyarrow as pa

from reclaim.errors import ReclaimError, StorageUnavailable
from reclaim.model import StoredObject
from reclaim.storage import LastCheck, Payload, Storage, no_check
from reclaim.testing.storage import StorageWrapper, as_batches

Fault = Callable[[str, str], None]
"""Called with (name of the call, address) before the call is made."""

EVERY = frozenset(
    (
        *("put", "get", "get_range", "stream", "reader", "head", "list", "folders"),
        *("copy", "move", "delete", "delete_page"),
    )
)


def slow_down(call: str, address: str) -> StorageUnavailable:
    """Return the error of an overloaded storage."""
    return StorageUnavailable(f"cannot {call} {address}: 503 Slow Down")


class FaultyStorage(StorageWrapper):
    """Calls its faults before every storage call."""

    def __init__(self, inner: Storage, *faults: Fault) -> None:
        super().__init__(inner)
        self.faults = list(faults)

    def _ask(self, call: str, address: str) -> None:
        for fault in self.faults:
            fault(call, address)

    def put(self, address: str, data: Payload, *, create: bool = False) -> None:
        self._ask("put", address)
        super().put(address, data, create=create)

    def get(self, address: str) -> bytes:
        self._ask("get", address)
        return super().get(address)

    def get_range(self, address: str, start: int, end: int) -> bytes:
        self._ask("get_range", address)
        return super().get_range(address, start, end)

    def stream(self, address: str) -> Iterator[bytes]:
        self._ask("stream", address)
        return super().stream(address)

    def reader(self, address: str) -> BinaryIO:
        self._ask("reader", address)
        return super().reader(address)

    def head(self, address: str) -> StoredObject:
        self._ask("head", address)
        return super().head(address)

    def list(self, prefix: str = "", *, after: str = "", until: str = "") -> Iterator[StoredObject]:
        self._ask("list", prefix)
        return super().list(prefix, after=after, until=until)

    def batches(
        self, prefix: str = "", *, after: str = "", until: str = ""
    ) -> Iterator[pa.RecordBatch]:
        self._ask("list", prefix)
        return super().batches(prefix, after=after, until=until)

    def folders(self, prefix: str = "") -> tuple[Sequence[str], Sequence[StoredObject]]:
        self._ask("folders", prefix)
        return super().folders(prefix)

    def copy(self, source: str, target: str) -> None:
        self._ask("copy", target)
        super().copy(source, target)

    def move(
        self,
        source: str,
        target: str,
        *,
        size: int,
        fresh: datetime | None = None,
        last_check: LastCheck = no_check,
    ) -> None:
        self._ask("move", source)
        super().move(source, target, size=size, fresh=fresh, last_check=last_check)

    def delete(self, address: str) -> None:
        self._ask("delete", address)
        super().delete(address)

    def delete_page(self, addresses: Sequence[str]) -> None:
        for address in addresses:
            self._ask("delete_page", address)
        super().delete_page(addresses)


class Nth:
    """Fails the nth of some calls, and the ``times - 1`` after it."""

    def __init__(
        self,
        n: int,
        error: Callable[[str, str], BaseException] = slow_down,
        *,
        calls: Collection[str] = EVERY,
        times: int = 1,
        below: str = "",
    ) -> None:
        self.asked = 0
        self._failing = range(n, n + times)
        self._error = error
        self._calls = calls
        self._below = below

    def __call__(self, call: str, address: str) -> None:
        if call in self._calls and address.startswith(self._below):
            self.asked += 1
            if self.asked in self._failing:
                raise self._error(call, address)


class Denied:
    """Fails some calls on some addresses until ``lift`` is called."""

    def __init__(
        self,
        addresses: Collection[str],
        error: Callable[[str], ReclaimError],
        *,
        calls: Collection[str] = EVERY,
    ) -> None:
        self._addresses = set(addresses)
        self._error = error
        self._calls = calls

    def __call__(self, call: str, address: str) -> None:
        if call in self._calls and address in self._addresses:
            raise self._error(f"cannot {call} {address}: 403 Forbidden")

    def lift(self) -> None:
        self._addresses.clear()


class Slow:
    """Runs an action before each of some calls, such as moving a clock."""

    def __init__(self, wait: Callable[[], object], *, calls: Collection[str] = EVERY) -> None:
        self._wait = wait
        self._calls = calls

    def __call__(self, call: str, _address: str) -> None:
        if call in self._calls:
            self._wait()


Listing = Callable[[Iterator[StoredObject]], Iterable[StoredObject]]


class ListingStorage(StorageWrapper):
    """Storage with listings changed by a function."""

    def __init__(self, inner: Storage, change: Listing) -> None:
        super().__init__(inner)
        self._change = change

    def list(self, prefix: str = "", *, after: str = "", until: str = "") -> Iterator[StoredObject]:
        return iter(self._change(super().list(prefix, after=after, until=until)))

    def batches(
        self, prefix: str = "", *, after: str = "", until: str = ""
    ) -> Iterator[pa.RecordBatch]:
        # One object at a time, so objects before an error are seen.
        for stored in self.list(prefix, after=after, until=until):
            yield from as_batches([stored])


def cut_off(after: int) -> Listing:
    """Return a listing change: an error after a number of objects, counted over all listings."""
    left = after

    def change(listed: Iterator[StoredObject]) -> Iterator[StoredObject]:
        nonlocal left
        for stored in listed:
            if left == 0:
                raise StorageUnavailable("cannot list: the connection was reset")
            left -= 1
            yield stored

    return change


def without(addresses: Collection[str]) -> Listing:
    """Return a listing change: leave objects out silently."""
    return lambda listed: (stored for stored in listed if stored.address not in addresses)


def stale(storage: Storage, prefix: str = "") -> Listing:
    """Return a listing change: the listing of now, without later writes and deletes."""
    then = {stored.address: stored for stored in storage.list(prefix)}

    def change(listed: Iterator[StoredObject]) -> Iterator[StoredObject]:
        asked = [stored.address for stored in listed]
        folders = {address.rpartition("/")[0] for address in asked}
        return (
            stored
            for address, stored in then.items()
            if address in asked or address.rpartition("/")[0] in folders
        )

    return change
