"""Inventories: listings that someone else made, such as S3 Inventory or any Parquet file.

The columns are key, size and last_modified (or last_modified_date). What is younger than the
inventory is not judged by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from reclaim.errors import InvalidInput, NotFound
from reclaim.storage import LISTED, Storage, translated
from reclaim.stores.base import Format
from reclaim.tasks.engine import Objects
from reclaim.tasks.parts import Part

MODIFIED = ("last_modified", "last_modified_date")


def find_inventory(storage: Storage, address: str, format: Format) -> Objects:
    """An inventory: one Parquet file, or a folder of them."""
    files = [stored for stored in storage.list(address) if stored.address.endswith(".parquet")]
    if not files:
        try:
            files = [storage.head(address)]
        except NotFound as error:
            raise NotFound(f"there is no inventory at {storage.url}/{address}") from error
    parts = []
    columns = None
    for stored in sorted(files, key=lambda found: found.address):
        # The whole file is read by a task; here its end is enough, but few storages need it.
        data = pq.ParquetFile(pa.BufferReader(storage.get(stored.address)))
        names = data.schema_arrow.names
        modified = next((name for name in MODIFIED if name in names), None)
        if "key" not in names or "size" not in names or modified is None:
            raise InvalidInput(
                f"the inventory {stored.address} has the columns {', '.join(names)}",
                hint="it needs key, size and last_modified",
            )
        if columns not in (None, ("key", "size", modified)):
            raise InvalidInput("the files of the inventory have different columns")
        columns = ("key", "size", modified)
        parts.append(Part(stored.address, data.metadata.num_rows, ""))
    assert columns is not None
    _, _, path = format.root.partition("://")[2].partition("/")
    cut = "" if format.root.startswith("file:") or not path else path.rstrip("/") + "/"
    before = min(stored.last_modified for stored in files)
    return Objects(storage.url, parts, columns, cut, before, verified=False)


def rows(data: bytes, objects: Objects, format: Format) -> Iterator[pa.Table] | pa.Table:
    """The objects of a store in one file of an inventory, as ``LISTED``."""
    with translated("read", "an inventory"):
        table = pq.ParquetFile(pa.BufferReader(data)).read(columns=list(objects.columns))
    return select(table, objects, format)


def select(table: pa.Table, objects: Objects, format: Format) -> pa.Table:
    """The rows of a store, with addresses relative to its storage."""
    key, size, modified = (table.column(name) for name in objects.columns)
    mine = pc.starts_with(key, objects.cut + format.prefix)
    if not pc.all(mine).as_py():
        key, size, modified = (column.filter(mine) for column in (key, size, modified))
    if objects.cut:
        key = pc.utf8_slice_codeunits(key, start=len(objects.cut))
    columns: Sequence[pa.ChunkedArray] = (key, pc.fill_null(size, 0), modified)
    typed = [column.cast(field.type) for column, field in zip(columns, LISTED, strict=True)]
    return pa.table(typed, schema=LISTED)
