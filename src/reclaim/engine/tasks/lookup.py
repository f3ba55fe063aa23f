"""Look up objects by address, and count objects by guard for incremental runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.errors import NotFound
from reclaim.model import StoredObject
from reclaim.storage import LISTED, Storage
from reclaim.stores.format import Format
from reclaim.urls import is_odd

FEW = 16
"""Objects looked up one after the other."""

MANY_FOLDERS = 500
"""Consecutive folders in a table; with more, each row is processed alone."""

GuardCounts = dict[str, tuple[int, int]]
"""Objects and bytes by guard."""


def look_up(storage: Storage, addresses: pa.ChunkedArray | pa.Array) -> pa.Table:
    """Return the existing objects among some addresses, as ``LISTED``.

    Addresses are never reused, so the moment of the lookup makes no difference.
    """
    names = [address for address in addresses.to_pylist() if not is_odd(address)]
    if len(names) <= FEW:
        objects = [_head(storage, name) for name in names]
    else:
        with ThreadPoolExecutor(max(1, storage.at_once)) as pool:
            objects = list(pool.map(lambda name: _head(storage, name), names))
    rows = [
        (stored.address, stored.size, stored.last_modified)
        for stored in objects
        if stored is not None
    ]
    columns = zip(*rows, strict=True) if rows else [()] * len(LISTED)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, LISTED, strict=True)]
    return pa.table(arrays, schema=LISTED)


def count_missing(format: Format, asked: pa.Table, existing: pa.Table) -> GuardCounts:
    """Return by guard the number of objects looked up but missing."""
    there = pc.is_in(asked.column("address"), existing.column("address").combine_chunks())
    missing = as_listed(asked.filter(pc.invert(there)).column("address"))
    return count_guards(format, missing)


def _head(storage: Storage, address: str) -> StoredObject | None:
    try:
        return storage.head(address)
    except NotFound:
        return None


def as_listed(addresses: pa.ChunkedArray) -> pa.Table:
    """Return addresses in the shape of a listing, with other columns empty."""
    rows = len(addresses)
    blank = pa.repeat(pa.scalar(0, pa.int64()), rows)
    columns = [addresses, blank, blank.cast(LISTED.field("last_modified").type)]
    return pa.table(columns, schema=LISTED)


def in_guards(format: Format, rows: pa.Table, guards: Collection[str]) -> pa.Table:
    """Return the rows with addresses in some guards."""
    return rows.filter(pc.is_in(guards_of(format, rows), pa.array(list(guards), pa.string())))


def guards_of(format: Format, rows: pa.Table) -> pa.Array:
    described = format.describe(rows.column("address").combine_chunks())
    return pc.struct_field(described, "guard")


def count_guards(format: Format, rows: pa.Table) -> GuardCounts:
    """Return objects and bytes of each guard; objects without a guard are not counted."""
    counts: GuardCounts = {}
    # A listing has the objects of a folder together, and a folder has a single guard.
    folders: GuardCounts = {}
    addresses = rows.column("address").combine_chunks()
    sizes = rows.column("size").combine_chunks()
    start = 0
    for _ in range(MANY_FOLDERS):
        if start == len(addresses):
            break
        folder = addresses[start].as_py().rpartition("/")[0] + "/"
        remaining = addresses.slice(start)
        others = pc.index(pc.starts_with(remaining, folder), False).as_py()
        count = len(remaining) if others < 0 else others
        size = pc.sum(sizes.slice(start, count)).as_py() or 0
        add_guards(folders, {folder: (count, size)})
        start += count
    named = pa.array([f"{folder}_" for folder in folders], pa.string())
    guards = pc.struct_field(format.describe(named), "guard").to_pylist()
    for guard, sums in zip(guards, folders.values(), strict=True):
        add_guards(counts, {guard: sums} if guard else {})
    if start < len(addresses):
        add_guards(counts, _count_each(format, rows.slice(start)))
    return counts


def _count_each(format: Format, rows: pa.Table) -> GuardCounts:
    table = pa.table({"guard": guards_of(format, rows), "size": rows.column("size")})
    sums = table.group_by("guard").aggregate([("size", "count"), ("size", "sum")])
    columns = (sums.column(name).to_pylist() for name in ("guard", "size_count", "size_sum"))
    return {guard: (count, size) for guard, count, size in zip(*columns, strict=True) if guard}


def add_guards(counts: GuardCounts, more: Mapping[str, tuple[int, int]]) -> None:
    for guard, (objects, size) in more.items():
        before = counts.get(guard, (0, 0))
        counts[guard] = before[0] + objects, before[1] + size


def below(prefix: str, rows: pa.Table) -> pa.Table:
    """Return the rows with addresses below a folder; all rows if it is empty."""
    return rows.filter(pc.starts_with(rows.column("address"), prefix)) if prefix else rows
