"""Parquet files whose names end with their hash, before the suffix.

The name alone is enough to verify a file.
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
    """Write a file whose name begins with ``stem``. Return its address and SHA-256."""
    data = encode(table)
    digest = hashlib.sha256(data).hexdigest()
    address = f"{stem}-{digest}.parquet"
    storage.put(address, data)
    return address, digest


def read(storage: Storage, address: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the rows of a file. A file that does not match the hash in its name is refused."""
    data = storage.get(address)
    stem = address.rpartition(".")[0]
    if not stem.endswith(f"-{hashlib.sha256(data).hexdigest()}"):
        raise PlanRefused(
            f"the file {address} was changed after it was written",
            hint="nothing was deleted; find out who writes there, then run it again",
        )
    return decode(data, address, columns)


def encode(table: pa.Table, *, decoded: bool = False) -> bytes:
    """Encode a table as Parquet; with ``decoded``, readers get plain values in place of codes."""
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
    """Yield the columns likely to repeat values. Looking for repetition elsewhere takes time."""
    for field in schema:
        if field.name not in MOSTLY_DIFFERENT:
            yield f"{field.name}.list.element" if pa.types.is_list(field.type) else field.name


def decode(
    data: bytes, address: str, columns: Sequence[str] | None = None, *, coded: Sequence[str] = ()
) -> pa.Table:
    """Decode the rows of a Parquet file; ``address`` is for error messages.

    The values of the columns ``coded`` come as codes.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=list(coded))
        return file.read(columns=columns, use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Corrupt(f"{address} cannot be read: {str(error).splitlines()[0]}") from error
