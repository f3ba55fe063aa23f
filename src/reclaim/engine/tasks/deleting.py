"""Delete pages of keys at a rate the storage can take, with an outcome for each key.

A *deleter* removes objects, permanently or to quarantine (see ``quarantine``).
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
        # Distinguishes the object from any other at the same address: an etag, a time, versions.
        pa.field("identity", pa.string()),
        # The logical path, if the plan knows it.
        pa.field("path", pa.string()),
    ]
)
"""Outcomes, one for each object."""

_PLANNED = ("address", "size", "kind", "reason")
GOING = pa.schema([JOURNAL.field(name) for name in (*_PLANNED, "identity", "path")])
"""Columns a sweep needs of an object. Plans and journals have them."""

DELETED, FAILED, MISSING, RESTORED = "deleted", "failed", "missing", "restored"


def as_going(rows: pa.Table) -> pa.Table:
    """Return rows of a plan, which have no identity yet, or of a journal, as ``GOING``."""
    for name in ("identity", "path"):
        if name not in rows.column_names:
            rows = rows.append_column(GOING.field(name), pa.nulls(rows.num_rows, pa.string()))
    return rows.select(GOING.names).cast(GOING)


@dataclass(frozen=True, slots=True)
class Target:
    """An object to remove, with its identity if an earlier step recorded it."""

    address: str
    size: int
    identity: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """The outcome for an object, and an identity by which to find it again."""

    outcome: str
    identity: str | None = None
    error: str | None = None


class Deleter(Protocol):
    """A way to remove objects. It is sent to executors."""

    @property
    def outcome(self) -> str:
        """Journal outcome for removed objects."""
        ...

    def page(self, storage: Storage, targets: Sequence[Target], in_time: InTime) -> Sequence[Taken]:
        """Remove several objects at once; an error says nothing about single objects.

        Between requests it checks for time, and raises ``TimeOver`` if there is none.
        """
        ...

    def take_one(self, storage: Storage, target: Target, in_time: InTime) -> Taken:
        """Remove an object. It may be removed already, and it may be too late, as for several."""
        ...


@dataclass(frozen=True, slots=True)
class Remove:
    """Deletes permanently.

    A storage does not report whether the object existed.

    ``undo_begun`` is the address of the file an undo of the run writes first, if it can be undone:
    nothing is deleted once this file exists.
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
        """Stop if an undo has begun: a task as late as this has no time left, either."""
        if not self.undo_begun:
            return
        try:
            storage.head(self.undo_begun)
        except NotFound:
            # The check takes time as well.
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
    """Remove objects page by page until time runs out; yield a journal of the attempts."""
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
            singly=lambda target: deleter.take_one(storage, target, in_time),
            failed=lambda error: Taken(FAILED, error=str(error)),
            in_time=in_time,
            strict=strict,
        )
        if taken is None:
            return
        tried_rows = page.slice(0, len(taken))
        known = [tried_rows.column(name) for name in _PLANNED]
        results = zip(
            *((result.outcome, result.error, result.identity) for result in taken), strict=True
        )
        tried = [pa.array(values, pa.string()) for values in results]
        yield pa.table([*known, *tried, tried_rows.column("path")], schema=JOURNAL)
        if len(taken) < len(targets) or (strict and taken[-1].outcome == FAILED):
            return


def is_strict(format: Format, deleter: Deleter) -> bool:
    """Return whether a failure stops all objects after it."""
    # When restoring in order, an object that fails does not hold up the others.
    return format.sequential and deleter.outcome != RESTORED


def check_inside(format: Format, addresses: Sequence[str]) -> None:
    """Refuse addresses outside the store's prefix, whatever a plan says."""
    named = pa.array(addresses, pa.string())
    inside = pc.and_(
        pc.starts_with(named, format.prefix),
        pc.invert(pc.match_substring_regex(named, ODD_ADDRESS)),
    )
    if not pc.all(inside, min_count=0).as_py():
        address = addresses[inside.to_pylist().index(False)]
        raise OwnedAddress(
            f"{address!r} is outside {format.prefix} or odd; it is never deleted",
            hint="the plan is not from this store; plan it again",
        )


@dataclass(slots=True)
class Outcome:
    """Outcome of many objects: outcome → (objects, bytes)."""

    counts: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)

    def count(self, journal: pa.Table) -> None:
        """Count a page. For so few rows a loop is faster than grouping."""
        columns = (journal.column(name).to_pylist() for name in ("outcome", "size"))
        for outcome, size in zip(*columns, strict=True):
            self.counts[outcome] += 1
            self.sizes[outcome] += size

    def encode(self) -> list[tuple[str, int, int]]:
        """Return lists, to send from a task to the driver."""
        return [(name, count, self.sizes[name]) for name, count in self.counts.items()]

    @classmethod
    def decode(cls, rows: Iterable[tuple[str, int, int]]) -> Outcome:
        outcome = cls()
        for name, count, size in rows:
            outcome.counts[name], outcome.sizes[name] = count, size
        return outcome

    def add(self, other: Outcome) -> None:
        self.counts.update(other.counts)
        self.sizes.update(other.sizes)

    def without(self, *names: str) -> Outcome:
        """Return the counts without some outcomes."""
        rows = [row for row in self.encode() if row[0] not in names]
        return Outcome.decode(rows)

    def only(self, *names: str) -> tuple[int, int]:
        """Return objects and bytes with one of some outcomes."""
        return sum(self.counts[name] for name in names), sum(self.sizes[name] for name in names)
