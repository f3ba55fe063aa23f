"""Inventories: listings made elsewhere, such as S3 Inventory or any Parquet file.

The columns are key, size and last_modified (or last_modified_date). Objects younger than the
inventory are not judged by it.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from reclaim.engine.answers import Objects
from reclaim.engine.tasks.parts import Part
from reclaim.errors import InvalidInput, NotFound
from reclaim.storage import LISTED, Storage, translated
from reclaim.stores.format import Format

MODIFIED = ("last_modified", "last_modified_date")


def find_inventory(storage: Storage, address: str, format: Format) -> Objects:
    """Return an inventory: a Parquet file, or a folder of them. A part is a row group of a file."""
    files = [stored for stored in storage.list(address) if stored.address.endswith(".parquet")]
    if not files:
        try:
            files = [storage.head(address)]
        except NotFound as error:
            raise NotFound(f"there is no inventory at {storage.url}/{address}") from error
    parts = []
    columns: tuple[str, str, str] | None = None
    for stored in sorted(files, key=lambda stored: stored.address):
        file = _open(storage, stored.address)
        named = _columns(file.schema_arrow.names, stored.address)
        if columns not in (None, named):
            raise InvalidInput("the files of the inventory have different columns")
        columns = named
        for number in range(file.num_row_groups):
            rows = file.metadata.row_group(number).num_rows
            parts.append(Part(stored.address, rows, "", str(number)))
    assert columns is not None
    _, _, path = format.root.partition("://")[2].partition("/")
    cut = "" if format.root.startswith("file:") or not path else path.rstrip("/") + "/"
    before = min(stored.last_modified for stored in files)
    return Objects(storage.url, parts, columns, cut, before, verified=False)


def read_inventory(storage: Storage, part: Part, objects: Objects, format: Format) -> pa.Table:
    """Return the store's objects in a part of an inventory, as ``LISTED``."""
    with translated("read", part.address):
        try:
            file = _open(storage, part.address)
            table = file.read_row_group(
                int(part.group), columns=list(objects.columns), use_threads=False
            )
        except (pa.ArrowException, OSError, ValueError) as error:
            _pass_on(error)
            raise _unreadable(part.address, str(error).splitlines()[0]) from error
    try:
        return _listed(table, part.address, objects, format)
    except pa.ArrowException as error:
        raise _unreadable(part.address, str(error).splitlines()[0]) from error


def _listed(table: pa.Table, file: str, objects: Objects, format: Format) -> pa.Table:
    key, size, modified = (table.column(name) for name in objects.columns)
    # A dictionary may contain a null value, visible only after decoding.
    key = key.cast(pa.string())
    if key.null_count:
        raise _unreadable(file, "a row has no key")
    inside = pc.starts_with(key, objects.cut + format.prefix)
    if not pc.all(inside).as_py():
        key, size, modified = (column.filter(inside) for column in (key, size, modified))
    if not _are_distinct(key):
        raise _unreadable(file, "a key is listed twice")
    if objects.cut:
        key = pc.utf8_slice_codeunits(key, start=len(objects.cut))
    modified = _times(modified, file)
    size = size.cast(pa.int64())
    if size.null_count or modified.null_count or (pc.min(size).as_py() or 0) < 0:
        raise _unreadable(file, "a row has no size or no time")
    return pa.table([key, size, modified], schema=LISTED)


def _are_distinct(keys: pa.ChunkedArray) -> bool:
    """Return whether all keys are distinct. Sorted keys are compared with their neighbours, without
    hashes."""
    ascending = pc.less(keys.slice(0, max(0, len(keys) - 1)), keys.slice(1))
    return bool(pc.all(ascending).as_py()) or pc.count_distinct(keys).as_py() == len(keys)


def _times(column: pa.ChunkedArray, file: str) -> pa.ChunkedArray:
    """Return times in microseconds. Dates and bare numbers are refused: they could be older than
    the real time."""
    if not (pa.types.is_timestamp(column.type) or _is_text(column.type)):
        raise _unreadable(file, f"its times have the type {column.type}")
    wanted = LISTED.field("last_modified").type
    return pc.cast(column, options=pc.CastOptions(wanted, allow_time_truncate=True))


def _is_text(type: pa.DataType) -> bool:
    return type in (pa.string(), pa.large_string())


def _unreadable(file: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"the inventory {file} cannot be read: {why}",
        hint="it needs a key, a size in bytes and a time for each object (an instant, or text like "
        "2026-01-31T12:00:00Z), and current versions only",
    )


def _pass_on(error: Exception) -> None:
    """Raise again an error of the system, unrelated to the file; Arrow's own errors have no
    number."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error


def _open(storage: Storage, address: str) -> Any:
    try:
        return pq.ParquetFile(pa.PythonFile(storage.reader(address), mode="r"))
    except (pa.ArrowException, OSError, ValueError) as error:
        _pass_on(error)
        raise InvalidInput(
            f"the inventory {address} is not a Parquet file",
            hint="it needs the columns key, size and last_modified",
        ) from error


def _columns(names: list[str], address: str) -> tuple[str, str, str]:
    modified = next((name for name in MODIFIED if name in names), None)
    if "key" not in names or "size" not in names or modified is None:
        raise InvalidInput(
            f"the inventory {address} has the columns {', '.join(names)}",
            hint="it needs key, size and last_modified",
        )
    columns = ("key", "size", modified)
    for name in columns:
        if names.count(name) > 1:
            raise InvalidInput(
                f"the inventory {address} has more than one column {name}",
                hint="remove the duplicate, and plan again",
            )
    return columns
