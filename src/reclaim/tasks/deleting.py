"""Deleting: pages of keys at a rate that the storage can take, with an outcome for each key.

A *deleter* takes objects away; removing them is one way, setting them aside is another (see
``aside``). It asks once and lets the storage say when it is too much: the rate grows while the
storage answers and halves when it does not.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.errors import NotFound, OwnedAddress, ReclaimError, StorageUnavailable
from reclaim.storage import Storage
from reclaim.stores.base import Format
from reclaim.urls import ODD_ADDRESS

PAGE = 250
PATIENCE = 5
"""How often a page is tried before its keys are tried one by one."""

JOURNAL = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("error", pa.string()),
    ]
)
"""What became of each object."""

DELETED, FAILED = "deleted", "failed"


class Deleter(Protocol):
    """A way to take objects away. It travels to the executors."""

    @property
    def outcome(self) -> str:
        """What the journal says of an object that it took."""
        ...

    def page(self, storage: Storage, sizes: Mapping[str, int]) -> None:
        """Take several at once (address → size); an error says nothing of the single ones."""
        ...

    def one(self, storage: Storage, address: str, size: int) -> None:
        """Take one; one that is not there counts as taken."""
        ...


@dataclass(frozen=True, slots=True)
class Remove:
    """Deletes for good."""

    @property
    def outcome(self) -> str:
        return DELETED

    def page(self, storage: Storage, sizes: Mapping[str, int]) -> None:
        storage.delete_page(list(sizes))

    def one(self, storage: Storage, address: str, size: int) -> None:  # noqa: ARG002
        storage.delete(address)


@dataclass(slots=True)
class Pace:
    """How many keys a second a task sends."""

    rate: float = 5_000.0
    least: float = 10.0
    sleep: Callable[[float], None] = field(default=time.sleep)

    def answered(self, keys: int, took: float) -> None:
        """The storage answered: wait for the rest of the page's time, and speed up."""
        rest = keys / self.rate - took
        if rest > 0:
            self.sleep(rest)
        self.rate *= 1.5

    def refused(self, keys: int) -> None:
        """The storage could not: slow down, and wait before the next try."""
        self.rate = max(self.rate / 2, self.least)
        self.sleep(keys / self.rate)


def delete(
    format: Format,
    storage: Storage,
    rows: pa.Table,
    *,
    deleter: Deleter,
    in_time: Callable[[], bool],
    pace: Pace,
) -> Iterator[pa.Table]:
    """Take objects away page by page for as long as there is time; a journal of what was tried."""
    check_inside(format, rows.column("address").to_pylist())
    for start in range(0, rows.num_rows, PAGE):
        if not in_time():
            return
        page = rows.slice(start, PAGE)
        addresses = page.column("address").to_pylist()
        sizes = dict(zip(addresses, page.column("size").to_pylist(), strict=True))
        errors = _take(storage, sizes, deleter, in_time, pace, sequential=format.sequential)
        if errors is None:
            return
        if errors and format.sequential:
            page = page.slice(0, addresses.index(next(iter(errors))) + 1)
            addresses = page.column("address").to_pylist()
        outcomes = [FAILED if address in errors else deleter.outcome for address in addresses]
        columns = [page.column(name) for name in ("address", "size", "kind", "reason")]
        said = [errors.get(address) for address in addresses]
        yield pa.table([*columns, pa.array(outcomes), pa.array(said, pa.string())], schema=JOURNAL)
        if errors and format.sequential:
            return


def _take(
    storage: Storage,
    sizes: Mapping[str, int],
    deleter: Deleter,
    in_time: Callable[[], bool],
    pace: Pace,
    *,
    sequential: bool,
) -> dict[str, str] | None:
    """The keys of a page that could not be taken, and why; None when time ran out.

    Where the order matters, the first one that could not be taken is the last one that was tried.
    """
    for _ in range(PATIENCE):
        if not in_time():
            return None
        started = time.monotonic()
        try:
            deleter.page(storage, sizes)
        except NotFound:
            break
        except StorageUnavailable:
            pace.refused(len(sizes))
        except ReclaimError:
            break
        else:
            pace.answered(len(sizes), time.monotonic() - started)
            return {}
    errors: dict[str, str] = {}
    for address, size in sizes.items():
        if not in_time():
            return None
        try:
            deleter.one(storage, address, size)
        except ReclaimError as error:
            errors[address] = str(error)
            if sequential:
                break
    return errors


def check_inside(format: Format, addresses: Sequence[str]) -> None:
    """Refuse addresses that are not the store's own, whatever a plan says."""
    named = pa.array(addresses, pa.string())
    inside = pc.and_(
        pc.starts_with(named, format.prefix),
        pc.invert(pc.match_substring_regex(named, ODD_ADDRESS)),
    )
    if not pc.all(inside, min_count=0).as_py():
        address = addresses[inside.to_pylist().index(False)]
        raise OwnedAddress(
            f"{address!r} lies outside {format.prefix}, or is odd; nothing there is ever deleted",
            hint="the plan is not from this store; plan it again",
        )


@dataclass(slots=True)
class Outcome:
    """What became of many objects: outcome → (objects, bytes)."""

    counts: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)

    def count(self, journal: pa.Table) -> None:
        for row in (
            journal.group_by("outcome").aggregate([("size", "sum"), ("size", "count")]).to_pylist()
        ):
            self.counts[row["outcome"]] += row["size_count"]
            self.sizes[row["outcome"]] += row["size_sum"]

    def encode(self) -> list[tuple[str, int, int]]:
        """As lists, for the way from a task to the driver."""
        return [(name, count, self.sizes[name]) for name, count in self.counts.items()]

    @classmethod
    def decode(cls, rows: Iterable[tuple[str, int, int]]) -> Outcome:
        found = cls()
        for name, count, size in rows:
            found.counts[name], found.sizes[name] = count, size
        return found

    def add(self, other: Outcome) -> None:
        self.counts.update(other.counts)
        self.sizes.update(other.sizes)
