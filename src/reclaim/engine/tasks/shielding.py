"""Shields: what the setting ``protect`` of a store keeps, by every path that an object ever had.

Paths are told by dead containers, which the same run may take; by what earlier runs remembered of
those that they took; and by files of the store. Whatever of it a glob matches *shields* the object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks.judging import PATHS
from reclaim.engine.tasks.parts import Part, Place
from reclaim.engine.tasks.reading import LIVE, UNREADABLE, is_there, reader_of
from reclaim.globs import first_match
from reclaim.storage import Storage
from reclaim.stores.format import NO_READ, Format

SHIELDS = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        # The number of the glob.
        pa.field("glob", pa.int32(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class MatchRequest:
    """Which dead containers to ask for paths that some globs match."""

    format: Format
    containers: Sequence[Part]
    """All containers, in the storage of the place. None if what dead ones list was read before."""
    globs: Sequence[str]
    place: Place
    listed: Sequence[Part] = ()
    """The entries of dead containers, as ``READ``."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Addresses and paths that globs match, as ``PATHS``."""

    parts: Sequence[Part] = ()
    containers: int = 0
    """Dead containers that were asked."""
    unread: int = 0
    """Dead containers that are there and cannot be read: what they list is not known."""


@dataclass(frozen=True, slots=True)
class ShieldRequest:
    """Where paths are told, and the globs that they are compared with."""

    globs: Sequence[str]
    matches: Sequence[Part]
    """As ``PATHS``, in the storage of the place."""
    url: str
    remembered: Sequence[Part]
    """As ``PATHS``, in the storage with this URL."""
    files: Sequence[str]
    """Files of the same shape, hashed by name, in the storage of the place."""
    place: Place


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """Which lists of paths to put together, each path once, if one of the globs matches it."""

    globs: Sequence[str]
    parts: Sequence[Part]
    """As ``PATHS``, in the storage of the place."""
    place: Place


def match_paths(rows: pa.Table, globs: Sequence[str]) -> pa.Table:
    """The rows of which a glob matches the path, as ``PATHS``."""
    rows = rows.select(PATHS.names)
    return rows.filter(first_match(rows.column("path"), globs).is_valid()).cast(PATHS)


def shields_of(rows: pa.Table, globs: Sequence[str]) -> pa.Table:
    """The addresses of which a glob matches the path, with its number."""
    numbers = first_match(rows.column("path"), globs)
    table = pa.table([rows.column("address"), numbers], names=SHIELDS.names)
    return table.filter(numbers.is_valid()).cast(SHIELDS)


@dataclass(slots=True)
class MatchCounts:
    """How many dead containers were asked, and how many of them are there and cannot be read."""

    containers: int = 0
    unread: int = 0


def count_listed(rows: pa.Table) -> int:
    """How many containers there are among what was read of them, as ``READ``."""
    count: int = rows.num_rows - rows.column("kind").null_count
    return count


def match_dead(
    format: Format,
    storage: Storage,
    containers: pa.Table,
    globs: Sequence[str],
    counts: MatchCounts,
) -> Iterator[pa.Table]:
    """Entries of dead containers that globs match, as ``PATHS``.

    What is gone, a run has taken that remembered its paths, or took it before anything was
    protected. What is there and cannot be read may list anything.
    """
    dead = containers.filter(pc.not_equal(containers.column("cause"), LIVE))
    for container in dead.to_pylist():
        counts.containers += 1
        try:
            if container["detail"] == NO_READ:
                # One that lists nothing is empty, or could not be read.
                if not container["entries"]:
                    reader_of(format).containers(storage, container["address"])
                continue
            entries = reader_of(format).entries(storage, container, paths=True)
        except UNREADABLE:
            counts.unread += is_there(storage, container["address"])
            continue
        matching = match_paths(entries, globs)
        if matching.num_rows:
            yield matching
