"""Reading containers: of live snapshots whole or not at all, of dead ones what is left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.errors import Corrupt, NotFound, UnknownVersion
from reclaim.storage import Storage
from reclaim.stores.base import CONTAINERS, TOP, Format

LIVE = 0
"""The cause of what is live: none. Every other number is an index into a plan's causes."""

TOPS = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("cause", pa.int32(), nullable=False),
    ]
)
"""The containers that snapshots name themselves."""


def tops_table(causes: Mapping[str, int], kind: str) -> pa.Table:
    """Tops of one kind, as ``TOPS``: the cause of each by its address."""
    kinds = pa.repeat(pa.scalar(kind, pa.string()), len(causes))
    addresses = pa.array(causes.keys(), pa.string())
    return pa.table([addresses, kinds, pa.array(causes.values(), pa.int32())], schema=TOPS)


READ = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("path", pa.string()),
        # Of a container itself its kind and how many entries were read; null for entries.
        pa.field("kind", pa.string()),
        pa.field("entries", pa.int64()),
        pa.field("cause", pa.int32(), nullable=False),
    ]
)
"""Addresses that containers list, and the containers themselves."""

UNREADABLE = (Corrupt, NotFound, UnknownVersion)


def expand(format: Format, storage: Storage, tops: pa.Table) -> Iterator[pa.Table]:
    """The containers of tops, and the tops themselves (their entries are their containers)."""
    for top in tops.to_pylist():
        cause = top["cause"]
        try:
            found = format.containers(storage, top["address"])
        except UNREADABLE:
            if cause == LIVE:
                raise
            # Of a dead snapshot something may have been collected before.
            found = CONTAINERS.empty_table()
        itself = [top["address"], top["kind"], TOP, found.num_rows, cause]
        arrays = [pa.array([v], f.type) for v, f in zip(itself, CONTAINERS, strict=True)]
        causes = pa.array([cause] * found.num_rows, pa.int32())
        listed = found.set_column(CONTAINERS.get_field_index("cause"), CONTAINERS.field(4), causes)
        yield pa.concat_tables([pa.table(arrays, schema=CONTAINERS), listed])


def read(
    format: Format, storage: Storage, containers: pa.Table, *, paths: bool
) -> Iterator[pa.Table]:
    """What containers list. A live one that cannot be read stops the run."""
    tops = pc.equal(containers.column("detail"), TOP)
    if pc.any(tops).as_py():
        # They have been read, or need not be; there may be very many of them.
        known = containers.filter(tops)
        path = pa.nulls(known.num_rows, pa.string())
        kind, entries, cause = (known.column(name) for name in ("kind", "entries", "cause"))
        yield pa.table([known.column("address"), path, kind, entries, cause], schema=READ)
    for container in containers.filter(pc.invert(tops)).to_pylist():
        try:
            found = format.entries(storage, container, paths=paths)
        except UNREADABLE:
            if container["cause"] == LIVE:
                raise
            yield _itself(container, 0)
            continue
        yield _itself(container, container["entries"])
        rows = found.num_rows
        columns = (
            found.column("address"),
            found.column("path"),
            pa.nulls(rows, pa.string()),
            pa.nulls(rows, pa.int64()),
            pa.repeat(pa.scalar(container["cause"], pa.int32()), rows),
        )
        yield pa.table(columns, schema=READ)


def _itself(container: Mapping[str, Any], entries: int) -> pa.Table:
    values = [container["address"], None, container["kind"], entries, container["cause"]]
    return pa.table([pa.array([v], f.type) for v, f in zip(values, READ, strict=True)], READ)


OWNED = pa.schema([pa.field("owner", pa.string(), nullable=False), *CONTAINERS])
"""Containers, each with the top that lists it."""

NEEDS = pa.schema(
    [
        pa.field("owner", pa.string(), nullable=False),
        pa.field("address", pa.string(), nullable=False),
    ]
)
"""What containers need to be whole."""


def folded(addresses: pa.ChunkedArray) -> pa.ChunkedArray:
    """Addresses in small letters, to compare those that are listed with those that are needed.

    A file system that does not tell capital letters from small ones lists a folder under the name
    that was used first, which need not be the one that is referred to.
    """
    return pc.utf8_lower(addresses)


NOWHERE = ""
"""What something needs that cannot even be read: an address that no object has."""


def owned(format: Format, storage: Storage, tops: pa.Table) -> Iterator[pa.Table]:
    """The containers of each top; one that is nowhere for a top that cannot be read."""
    for top in tops.column("address").to_pylist():
        try:
            found = format.containers(storage, top)
        except UNREADABLE:
            nowhere = [NOWHERE, "", TOP, 0, LIVE]
            found = pa.table(
                [pa.array([v], f.type) for v, f in zip(nowhere, CONTAINERS, strict=True)],
                schema=CONTAINERS,
            )
        owners = pa.repeat(pa.scalar(top, pa.string()), found.num_rows)
        yield pa.table([owners, *found.columns], schema=OWNED)


def needed(format: Format, storage: Storage, tops: pa.Table) -> Iterator[pa.Table]:
    """Every address that snapshots need, as far as their containers can be read."""
    yield tops.select(["address"])
    for table in owned(format, storage, tops):
        yield table.select(["address"])
        for rows in needs(format, storage, table.select(CONTAINERS.names)):
            yield rows.select(["address"])


def needs(format: Format, storage: Storage, containers: pa.Table) -> Iterator[pa.Table]:
    """What each container lists, ``folded``; of one that cannot be read, an address that is
    nowhere."""
    for container in containers.to_pylist():
        nowhere = pa.chunked_array([[NOWHERE]], pa.string())
        try:
            missing = container["detail"] == TOP
            found = nowhere if missing else format.entries(storage, container, paths=False)[0]
        except UNREADABLE:
            found = nowhere
        owners = pa.repeat(pa.scalar(container["address"], pa.string()), len(found))
        yield pa.table([owners, folded(found)], schema=NEEDS)
