"""Looking up objects whose addresses are known, and what an incremental run notes of objects."""

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
"""So many objects are looked up one after the other."""

MANY_FOLDERS = 500
"""Most folders one after the other in a table; with more, each row is looked at."""

GuardCounts = dict[str, tuple[int, int]]
"""Objects and bytes by guard."""


def look_up(storage: Storage, addresses: pa.ChunkedArray | pa.Array) -> pa.Table:
    """Those of some objects that are there, as a listing has them.

    Addresses are never given out twice, so it makes no difference when it is asked.
    """
    names = [address for address in addresses.to_pylist() if not is_odd(address)]
    if len(names) <= FEW:
        found = [_head(storage, name) for name in names]
    else:
        with ThreadPoolExecutor(max(1, storage.at_once)) as pool:
            found = list(pool.map(lambda name: _head(storage, name), names))
    rows = [(one.address, one.size, one.last_modified) for one in found if one is not None]
    columns = zip(*rows, strict=True) if rows else [()] * len(LISTED)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, LISTED, strict=True)]
    return pa.table(arrays, schema=LISTED)


def count_missing(format: Format, asked: pa.Table, found: pa.Table) -> GuardCounts:
    """How many of the objects that were looked up are not there, by guard."""
    there = pc.is_in(asked.column("address"), found.column("address").combine_chunks())
    missing = as_listed(asked.filter(pc.invert(there)).column("address"))
    return count_guards(format, missing)


def _head(storage: Storage, address: str) -> StoredObject | None:
    try:
        return storage.head(address)
    except NotFound:
        return None


def as_listed(addresses: pa.ChunkedArray) -> pa.Table:
    """Addresses in the shape of a listing, of which nothing else is known."""
    rows = len(addresses)
    blank = pa.repeat(pa.scalar(0, pa.int64()), rows)
    columns = [addresses, blank, blank.cast(LISTED.field("last_modified").type)]
    return pa.table(columns, schema=LISTED)


def in_guards(format: Format, rows: pa.Table, guards: Collection[str]) -> pa.Table:
    """The rows whose addresses are of some guards."""
    return rows.filter(pc.is_in(guards_of(format, rows), pa.array(list(guards), pa.string())))


def guards_of(format: Format, rows: pa.Table) -> pa.Array:
    described = format.describe(rows.column("address").combine_chunks())
    return pc.struct_field(described, "guard")


def count_guards(format: Format, rows: pa.Table) -> GuardCounts:
    """Objects and bytes of each guard; what has none is not counted."""
    counts: GuardCounts = {}
    # A listing has the objects of a folder together, and a folder has one guard.
    folders: GuardCounts = {}
    addresses = rows.column("address").combine_chunks()
    sizes = rows.column("size").combine_chunks()
    start = 0
    for _ in range(MANY_FOLDERS):
        if start == len(addresses):
            break
        folder = addresses[start].as_py().rpartition("/")[0] + "/"
        rest = addresses.slice(start)
        others = pc.index(pc.starts_with(rest, folder), False).as_py()
        count = len(rest) if others < 0 else others
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
    """The rows whose addresses lie below a folder; all of them without one."""
    return rows.filter(pc.starts_with(rows.column("address"), prefix)) if prefix else rows
