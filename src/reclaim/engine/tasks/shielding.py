"""Shields: objects kept by the setting ``protect`` of a store, by every path an object ever had.

Paths come from dead containers, which the same run may delete; from paths remembered by earlier
runs for the objects they took; and from files of the store. A glob matching any of them *shields*
the object.
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
    """Request for paths in dead containers matched by globs."""

    format: Format
    containers: Sequence[Part]
    """All containers, in the storage of the place. None if dead containers were read before."""
    globs: Sequence[str]
    place: Place
    listed: Sequence[Part] = ()
    """The entries of dead containers, as ``READ``."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Addresses and paths matched by globs, as ``PATHS``."""

    parts: Sequence[Part] = ()
    containers: int = 0
    """Number of dead containers read."""
    unread: int = 0
    """Existing but unreadable dead containers: their entries are unknown."""


@dataclass(frozen=True, slots=True)
class ShieldRequest:
    """Request to compare paths from all sources with globs."""

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
    """Request to merge lists of paths, each path once, if a glob matches it."""

    globs: Sequence[str]
    parts: Sequence[Part]
    """As ``PATHS``, in the storage of the place."""
    place: Place


def match_paths(rows: pa.Table, globs: Sequence[str]) -> pa.Table:
    """Return the rows with a path matched by a glob, as ``PATHS``."""
    rows = rows.select(PATHS.names)
    return rows.filter(first_match(rows.column("path"), globs).is_valid()).cast(PATHS)


def shields_of(rows: pa.Table, globs: Sequence[str]) -> pa.Table:
    """Return the addresses with a path matched by a glob, with the number of the glob."""
    numbers = first_match(rows.column("path"), globs)
    table = pa.table([rows.column("address"), numbers], names=SHIELDS.names)
    return table.filter(numbers.is_valid()).cast(SHIELDS)


@dataclass(slots=True)
class MatchCounts:
    """Number of dead containers read, and of those existing but unreadable."""

    containers: int = 0
    unread: int = 0


def count_listed(rows: pa.Table) -> int:
    """Return the number of containers in rows as ``READ``."""
    count: int = rows.num_rows - rows.column("kind").null_count
    return count


def match_dead(
    format: Format,
    storage: Storage,
    containers: pa.Table,
    globs: Sequence[str],
    counts: MatchCounts,
) -> Iterator[pa.Table]:
    """Yield entries of dead containers matched by globs, as ``PATHS``.

    A missing container was deleted by a run that remembered its paths, or before anything was
    protected. An existing but unreadable container may list anything.
    """
    dead = containers.filter(pc.not_equal(containers.column("cause"), LIVE))
    for container in dead.to_pylist():
        counts.containers += 1
        try:
            if container["detail"] == NO_READ:
                # A container without entries is empty or unreadable.
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
