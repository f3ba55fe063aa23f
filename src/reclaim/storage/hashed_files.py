"""Parquet files whose names end with what they must hash to, before the suffix.

Whoever is given only the names can tell that a file is as it was written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from reclaim.errors import Corrupt, PlanRefused
from reclaim.storage.base import Storage

MOSTLY_DIFFERENT = ("address", "path", "paths")


def write(storage: Storage, stem: str, table: pa.Table) -> tuple[str, str]:
    """Write a file whose name begins with ``stem``; its address and its SHA-256."""
    data = encode(table)
    digest = hashlib.sha256(data).hexdigest()
    address = f"{stem}-{digest}.parquet"
    storage.put(address, data)
    return address, digest


def read(storage: Storage, address: str, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a file; refused unless it has the hash that its name says."""
    data = storage.get(address)
    stem = address.rpartition(".")[0]
    if not stem.endswith(f"-{hashlib.sha256(data).hexdigest()}"):
        raise PlanRefused(
            f"the file {address} was changed after it was written",
            hint="nothing was deleted; see who writes there, then run it again",
        )
    return decode(data, address, columns)


def encode(table: pa.Table, *, decoded: bool = False) -> bytes:
    """A table as the bytes of a Parquet file; ``decoded``: who reads it need not know of codes."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        compression_level=1,
        use_dictionary=list(_repeated(table.schema)),
        store_schema=not decoded,
    )
    return bytes(sink.getvalue())


def _repeated(schema: pa.Schema) -> Iterator[str]:
    """The columns that may have the same value often. To look for it in others takes its time."""
    for field in schema:
        if field.name not in MOSTLY_DIFFERENT:
            yield f"{field.name}.list.element" if pa.types.is_list(field.type) else field.name


def decode(
    data: bytes, address: str, columns: Sequence[str] | None = None, *, coded: Sequence[str] = ()
) -> pa.Table:
    """The rows in the bytes of a Parquet file; ``address`` is named when it cannot be read.

    The values of the columns ``coded`` come as codes.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=list(coded))
        return file.read(columns=columns, use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Corrupt(f"{address} cannot be read: {str(error).splitlines()[0]}") from error
