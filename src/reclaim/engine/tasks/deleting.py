"""Deleting: pages of keys at a rate that the storage can take, with an outcome for each key.

A *deleter* takes objects away; removing them is one way, setting them aside is another (see
``aside``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.errors import NotFound, OwnedAddress
from reclaim.storage import Storage
from reclaim.storage.pace import InTime, Pace, TimeOver, check_time
from reclaim.stores.format import Format
from reclaim.urls import ODD_ADDRESS

PAGE = 250
JOURNAL = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("error", pa.string()),
        # What tells the object from any other at the same address: an etag, a time, versions.
        pa.field("identity", pa.string()),
        # The logical path, where the plan knows it.
        pa.field("path", pa.string()),
    ]
)
"""Outcomes, one for each object."""

_PLANNED = ("address", "size", "kind", "reason")
GOING = pa.schema([JOURNAL.field(name) for name in (*_PLANNED, "identity", "path")])
"""Columns that a sweep needs of an object. Plans have them, and journals."""

DELETED, FAILED, MISSING, RESTORED = "deleted", "failed", "missing", "restored"


def as_going(rows: pa.Table) -> pa.Table:
    """Rows of a plan, which have no identity yet, or of a journal."""
    for name in ("identity", "path"):
        if name not in rows.column_names:
            rows = rows.append_column(GOING.field(name), pa.nulls(rows.num_rows, pa.string()))
    return rows.select(GOING.names).cast(GOING)


@dataclass(frozen=True, slots=True)
class Target:
    """An object to take away, with its identity where an earlier step wrote that down."""

    address: str
    size: int
    identity: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """The outcome for an object, and the identity by which it can be found again."""

    outcome: str
    identity: str | None = None
    error: str | None = None


class Deleter(Protocol):
    """A way to take objects away. It travels to the executors."""

    @property
    def outcome(self) -> str:
        """The word by which the journal records an object that it took."""
        ...

    def page(self, storage: Storage, targets: Sequence[Target], in_time: InTime) -> Sequence[Taken]:
        """Take several at once; an error says nothing of the single ones.

        Whoever sends more than one request asks before each whether there is time, and raises
        ``TimeOver`` if there is not.
        """
        ...

    def take_one(self, storage: Storage, target: Target, in_time: InTime) -> Taken:
        """Take one. It may have been taken before; and it may be too late, as for several."""
        ...


@dataclass(frozen=True, slots=True)
class Remove:
    """Deletes for good. Whether there was anything to delete, a storage does not say.

    ``undo_begun`` is the address of the file that an undo of the run writes before it looks at
    anything, where there is such an undo: nothing is deleted once it is there.
    """

    undo_begun: str = ""

    @property
    def outcome(self) -> str:
        return DELETED

    def page(
        self,
        storage: Storage,
        targets: Sequence[Target],
        in_time: InTime,
    ) -> Sequence[Taken]:
        self._check_not_undone(storage, in_time)
        storage.delete_page([target.address for target in targets])
        return [Taken(DELETED)] * len(targets)

    def take_one(
        self,
        storage: Storage,
        target: Target,
        in_time: InTime,
    ) -> Taken:
        self._check_not_undone(storage, in_time)
        storage.delete(target.address)
        return Taken(DELETED)

    def _check_not_undone(self, storage: Storage, in_time: InTime) -> None:
        """Stop if an undo has begun: whoever is that late has lost its time too."""
        if not self.undo_begun:
            return
        try:
            storage.head(self.undo_begun)
        except NotFound:
            # Asking takes its time as well.
            check_time(in_time)
        else:
            raise TimeOver


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
    rows = as_going(rows)
    strict = is_strict(format, deleter)
    check_inside(format, rows.column("address").to_pylist())
    for start in range(0, rows.num_rows, PAGE):
        if not in_time():
            return
        page = rows.slice(start, PAGE)
        columns = (page.column(name).to_pylist() for name in ("address", "size", "identity"))
        targets = [
            Target(address, size, identity or "")
            for address, size, identity in zip(*columns, strict=True)
        ]
        taken = pace.take(
            targets,
            together=lambda several: deleter.page(storage, several, in_time),
            singly=lambda one: deleter.take_one(storage, one, in_time),
            failed=lambda error: Taken(FAILED, error=str(error)),
            in_time=in_time,
            strict=strict,
        )
        if taken is None:
            return
        tried_rows = page.slice(0, len(taken))
        known = [tried_rows.column(name) for name in _PLANNED]
        results = zip(*((one.outcome, one.error, one.identity) for one in taken), strict=True)
        tried = [pa.array(values, pa.string()) for values in results]
        yield pa.table([*known, *tried, tried_rows.column("path")], schema=JOURNAL)
        if len(taken) < len(targets) or (strict and taken[-1].outcome == FAILED):
            return


def is_strict(format: Format, deleter: Deleter) -> bool:
    """Whether nothing goes that comes after one that could not."""
    # Of what comes back in order, one that cannot does not hold up the others.
    return format.sequential and deleter.outcome != RESTORED


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
    """The outcome for many objects: outcome → (objects, bytes)."""

    counts: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)

    def count(self, journal: pa.Table) -> None:
        """Count a page: of so few rows a loop is quicker than to group them."""
        columns = (journal.column(name).to_pylist() for name in ("outcome", "size"))
        for outcome, size in zip(*columns, strict=True):
            self.counts[outcome] += 1
            self.sizes[outcome] += size

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

    def without(self, *names: str) -> Outcome:
        """The same, but for some outcomes."""
        rows = [row for row in self.encode() if row[0] not in names]
        return Outcome.decode(rows)

    def only(self, *names: str) -> tuple[int, int]:
        """Objects and bytes with one of these outcomes."""
        return sum(self.counts[name] for name in names), sum(self.sizes[name] for name in names)
