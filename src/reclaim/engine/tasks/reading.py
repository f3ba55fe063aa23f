"""Read containers: of live snapshots completely or not at all, of dead snapshots as far as
possible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reclaim.errors import Corrupt, NotFound, UnknownVersion
from reclaim.storage import Storage
from reclaim.storage.read_ahead import read_ahead
from reclaim.stores.format import CONTAINERS, ENTRIES, NO_READ, OWNED, Format, ReadsContainers

LIVE = 0
"""The cause of live containers. Every other number is an index into a plan's causes."""

SNAPSHOT_CONTAINERS = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("cause", pa.int32(), nullable=False),
    ]
)
"""The containers named by snapshots."""


def snapshot_containers(
    addresses: pa.Array | Sequence[str], kind: str, causes: Sequence[int] | None = None
) -> pa.Table:
    """Return containers of a kind, as ``SNAPSHOT_CONTAINERS``; live, unless causes are given."""
    rows = len(addresses)
    columns = (
        addresses if isinstance(addresses, pa.Array) else pa.array(addresses, pa.string()),
        pa.repeat(pa.scalar(kind, pa.string()), rows),
        pa.repeat(pa.scalar(LIVE, pa.int32()), rows)
        if causes is None
        else pa.array(causes, pa.int32()),
    )
    return pa.table(columns, schema=SNAPSHOT_CONTAINERS)


def each_once(tables: Sequence[pa.Table]) -> pa.Table:
    """Combine snapshot containers, each address once; an address live anywhere is live."""
    whole = pa.concat_tables([SNAPSHOT_CONTAINERS.empty_table(), *tables])
    grouped = whole.group_by("address", use_threads=False)
    once = grouped.aggregate([("kind", "first"), ("cause", "min")])
    columns = [once.column(name) for name in ("address", "kind_first", "cause_min")]
    return pa.table(columns, schema=SNAPSHOT_CONTAINERS)


READ = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("path", pa.string()),
        # For a container itself, its kind and its number of entries read; null for entries.
        pa.field("kind", pa.string()),
        pa.field("entries", pa.int64()),
        pa.field("cause", pa.int32(), nullable=False),
    ]
)
"""Addresses listed by containers, and the containers themselves."""

TOGETHER = 10_000
"""Rows worth a table of their own."""

UNREADABLE = (Corrupt, NotFound, UnknownVersion)


def expand(format: Format, storage: Storage, containers: pa.Table) -> Iterator[pa.Table]:
    """Yield snapshot containers, and the containers they list, which count as their entries."""
    named, unread = _by_name(format, containers)
    if named.num_rows:
        yield as_named(named)
    yield from read_ahead(storage, partial(_expand, format, storage), unread.to_pylist())


def _expand(format: Format, storage: Storage, container: Mapping[str, Any]) -> pa.Table:
    """Read a snapshot container, and return it with the containers it lists."""
    cause = container["cause"]
    try:
        listed = reader_of(format).containers(storage, container["address"])
    except UNREADABLE:
        if cause == LIVE:
            raise
        # Parts of a dead snapshot may have been collected before.
        listed = CONTAINERS.empty_table()
    itself = [container["address"], container["kind"], NO_READ, listed.num_rows, cause]
    arrays = [pa.array([v], f.type) for v, f in zip(itself, CONTAINERS, strict=True)]
    causes = pa.array([cause] * listed.num_rows, pa.int32())
    at = CONTAINERS.get_field_index("cause")
    listed = listed.set_column(at, CONTAINERS.field(at), causes)
    return pa.concat_tables([pa.table(arrays, schema=CONTAINERS), listed])


def as_named(containers: pa.Table) -> pa.Table:
    """Return snapshot containers taken by name, as ``CONTAINERS``."""
    rows = containers.num_rows
    columns = (
        containers.column("address"),
        containers.column("kind"),
        pa.repeat(pa.scalar(NO_READ, pa.string()), rows),
        pa.repeat(pa.scalar(0, pa.int64()), rows),
        containers.column("cause"),
    )
    return pa.table(columns, schema=CONTAINERS)


def _by_name(format: Format, containers: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return snapshot containers taken by name, and those to read."""
    has_to = pc.is_in(containers.column("kind"), pa.array(format.reads, pa.string()))
    return containers.filter(pc.invert(has_to)), containers.filter(has_to)


def is_there(storage: Storage, address: str) -> bool:
    """Return whether an unreadable object exists."""
    try:
        storage.head(address)
    except NotFound:
        return False
    return True


def reader_of(format: Format) -> ReadsContainers:
    """Return a format that reads containers."""
    if not isinstance(format, ReadsContainers):
        raise TypeError(f"{type(format).__name__} has containers to read, but cannot read them")
    return format


def read(
    format: Format, storage: Storage, containers: pa.Table, *, paths: bool
) -> Iterator[pa.Table]:
    """Yield the entries of containers. An unreadable live container stops the run."""
    no_read = pc.equal(containers.column("detail"), NO_READ)
    if pc.any(no_read).as_py():
        # These are read already, or need no reading; there may be very many of them.
        known = containers.filter(no_read)
        path = pa.nulls(known.num_rows, pa.string())
        kind, entries, cause = (known.column(name) for name in ("kind", "entries", "cause"))
        yield pa.table([known.column("address"), path, kind, entries, cause], schema=READ)
    unread = containers.filter(pc.invert(no_read)).to_pylist()
    read_entries = partial(_entries, format, storage, paths)
    waiting: list[tuple[Mapping[str, Any], pa.Table | None]] = []
    rows = 0
    for container, listed in zip(
        unread, read_ahead(storage, read_entries, unread, entries=_count_entries), strict=True
    ):
        waiting.append((container, listed))
        rows += 1 + (listed.num_rows if listed is not None else 0)
        # For a small container, a table of its own would take most of the time.
        if rows >= TOGETHER:
            yield _together(waiting)
            waiting, rows = [], 0
    if waiting:
        yield _together(waiting)


def _entries(
    format: Format, storage: Storage, paths: bool, container: Mapping[str, Any]
) -> pa.Table | None:
    """Return the entries of a container; None for an unreadable dead container."""
    try:
        return reader_of(format).entries(storage, container, paths=paths)
    except UNREADABLE:
        if container["cause"] == LIVE:
            raise
        return None


def _together(read: Sequence[tuple[Mapping[str, Any], pa.Table | None]]) -> pa.Table:
    """Return containers, followed by the entries of all of them."""
    containers = [container for container, _ in read]
    whole = [(container, listed) for container, listed in read if listed is not None]
    counts = [0 if listed is None else container["entries"] for container, listed in read]
    itself = (
        pa.array([container["address"] for container in containers], pa.string()),
        pa.nulls(len(read), pa.string()),
        pa.array([container["kind"] for container in containers], pa.string()),
        pa.array(counts, pa.int64()),
        pa.array([container["cause"] for container in containers], pa.int32()),
    )
    listed = pa.concat_tables([ENTRIES.empty_table(), *(listed for _, listed in whole)])
    causes = np.array([container["cause"] for container, _ in whole], np.int32)
    columns = (
        listed.column("address"),
        listed.column("path"),
        pa.nulls(listed.num_rows, pa.string()),
        pa.nulls(listed.num_rows, pa.int64()),
        pa.array(np.repeat(causes, [listed.num_rows for _, listed in whole])),
    )
    return pa.concat_tables([pa.table(itself, schema=READ), pa.table(columns, schema=READ)])


def _count_entries(container: Mapping[str, Any]) -> int:
    count: int = container["entries"]
    return count


NEEDS = pa.schema(
    [
        pa.field("owner", pa.string(), nullable=False),
        pa.field("address", pa.string(), nullable=False),
    ]
)
"""Addresses containers need to be complete."""


def folded(addresses: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return addresses in lower case, to compare listed with needed addresses.

    A case-insensitive file system lists a folder under its first name, which may differ in case
    from the referenced name.
    """
    return pc.utf8_lower(addresses)


NOWHERE = ""
"""An address no object has: the need of an unreadable container."""


def owned(format: Format, storage: Storage, containers: pa.Table) -> Iterator[pa.Table]:
    """Yield the containers of each snapshot container; ``NOWHERE`` if it cannot be read.

    A snapshot container taken by name needs only itself.
    """
    named, unread = _by_name(format, containers)
    if named.num_rows:
        yield pa.table([named.column("address"), *as_named(named).columns], schema=OWNED)
    addresses = unread.column("address").to_pylist()
    yield from read_ahead(storage, partial(_owned, format, storage), addresses)


def _owned(format: Format, storage: Storage, address: str) -> pa.Table:
    try:
        listed = reader_of(format).containers(storage, address)
    except UNREADABLE:
        nowhere = [NOWHERE, "", NO_READ, 0, LIVE]
        listed = pa.table(
            [pa.array([v], f.type) for v, f in zip(nowhere, CONTAINERS, strict=True)],
            schema=CONTAINERS,
        )
    owners = pa.repeat(pa.scalar(address, pa.string()), listed.num_rows)
    return pa.table([owners, *listed.columns], schema=OWNED)


def needs(format: Format, storage: Storage, containers: pa.Table) -> Iterator[pa.Table]:
    """Yield the addresses each container lists, ``folded``; ``NOWHERE`` for an unreadable
    container."""
    yield from read_ahead(
        storage, partial(_needs, format, storage), containers.to_pylist(), entries=_count_entries
    )


def _needs(format: Format, storage: Storage, container: Mapping[str, Any]) -> pa.Table:
    try:
        if container["detail"] == NO_READ:
            # Itself: by its name, or nowhere.
            addresses = pa.chunked_array([[container["address"]]], pa.string())
        else:
            entries = reader_of(format).entries(storage, container, paths=False)
            addresses = entries.column("address")
    except UNREADABLE:
        addresses = pa.chunked_array([[NOWHERE]], pa.string())
    owners = pa.repeat(pa.scalar(container["address"], pa.string()), len(addresses))
    return pa.table([owners, folded(addresses)], schema=NEEDS)
