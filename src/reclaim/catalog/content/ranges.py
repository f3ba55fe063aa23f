"""Ranges and metaranges: immutable, sorted Parquet files holding the entries of commits.

A range holds entries in path order. It ends after a path with a matching hash, or at ``MAX_ROWS``.
Boundaries depend on the paths alone and not on the history of edits, so equal entries give equal
ranges. A metarange lists the ranges of a commit. Both are named by a hash of their rows, not of the
Parquet bytes.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from reclaim.catalog import addresses
from reclaim.catalog.content.entries import COLUMNS
from reclaim.errors import Corrupt, UnknownVersion

TARGET_ROWS = 4_096
MAX_ROWS = 4 * TARGET_ROWS

_FORMAT = b"reclaim.format"
_RANGE = b"range/1"
_METARANGE = b"metarange/1"

_TYPES = {"size": pa.int64(), "created_at": pa.timestamp("us", tz="UTC")}
ENTRIES = pa.schema(
    [pa.field(name, _TYPES.get(name, pa.string()), nullable=False) for name in COLUMNS],
    metadata={_FORMAT: _RANGE},
)


@dataclass(frozen=True, slots=True)
class RangeInfo:
    """Range as listed in its metarange."""

    address: str
    digest: str
    min_path: str
    max_path: str
    count: int
    size: int
    """Sum of the sizes of its entries."""


_INFO_TYPES = {"count": pa.int64(), "size": pa.int64()}
RANGES = pa.schema(
    [
        pa.field(field.name, _INFO_TYPES.get(field.name, pa.string()), nullable=False)
        for field in fields(RangeInfo)
    ],
    metadata={_FORMAT: _METARANGE},
)


def ends_range(path: str) -> bool:
    """Whether a range ends after this path, whatever else it contains."""
    # The multiplication mixes the checksum, which alone is linear in the bytes of the path.
    mixed = (zlib.crc32(path.encode()) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    return (mixed >> 32) % TARGET_ROWS == 0


def digest(rows: pa.Table) -> str:
    """Hash of the rows of a table without nulls, independent of its memory layout."""
    total = hashlib.sha256()
    for name in rows.schema.names:
        column = rows.column(name)
        for part in (_lengths, _bytes) if pa.types.is_string(column.type) else (_bytes,):
            for chunk in column.chunks:
                total.update(part(chunk))
    return total.hexdigest()[:32]


def _lengths(array: pa.Array) -> memoryview:
    """Length in bytes of each string of an array without nulls, in Arrow's layout."""
    if not len(array):
        return _EMPTY
    start, stop = array.offset, array.offset + len(array)
    offsets = memoryview(array.buffers()[1]).cast("i")[start : stop + 1]
    return memoryview(np.diff(np.frombuffer(offsets, np.int32)))


def _bytes(array: pa.Array) -> memoryview:
    """Values of an array without nulls, in their memory layout."""
    buffers = array.buffers()
    start, stop = array.offset, array.offset + len(array)
    if pa.types.is_string(array.type):
        offsets = memoryview(buffers[1]).cast("i")
        return memoryview(buffers[2] or b"")[offsets[start] : offsets[stop]] if stop else _EMPTY
    width = array.type.bit_width // 8
    return memoryview(buffers[1])[start * width : stop * width]


_EMPTY = memoryview(b"")


def encode_range(rows: pa.Table) -> bytes:
    return _encode(rows.cast(ENTRIES))


def encode_metarange(ranges: Sequence[RangeInfo]) -> tuple[str, bytes]:
    """Hash of a metarange, and its file."""
    rows = [astuple(info) for info in ranges]
    columns = zip(*rows, strict=True) if rows else [()] * len(RANGES)
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, RANGES, strict=True)], RANGES)
    return digest(table), _encode(table)


def decode_range(data: bytes, info: RangeInfo) -> pa.Table:
    """Rows of a range, verified against its metarange."""
    table = _decode(data, ENTRIES, info.address)
    if digest(table) != info.digest:
        raise _damaged(info.address, "its rows do not match the hash in its metarange")
    return table


def decode_metarange_table(data: bytes, address: str) -> pa.Table:
    """Rows of a metarange, verified against the hash in its name."""
    table = _decode(data, RANGES, address)
    if digest(table) != addresses.digest_of(address):
        raise _damaged(address, "its rows do not match the hash in its name")
    return table


def decode_metarange(data: bytes, address: str) -> list[RangeInfo]:
    table = decode_metarange_table(data, address)
    columns = [table.column(name).to_pylist() for name in RANGES.names]
    return [RangeInfo(*values) for values in zip(*columns, strict=True)]


def _damaged(address: str, why: str) -> Corrupt:
    return Corrupt(
        f"the container {address} cannot be read: {why}",
        hint="restore it from a backup or another copy; nothing was changed",
    )


def _encode(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", use_dictionary=["content_type"])
    return bytes(sink.getvalue())


def _decode(data: bytes, schema: pa.Schema, address: str) -> pa.Table:
    try:
        # Many small files are read in parallel: threads within a file cost more than they save.
        table = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(address, str(error).split("\n", 1)[0]) from error
    expected, actual = schema.metadata[_FORMAT], (table.schema.metadata or {}).get(_FORMAT)
    if actual is None or actual.split(b"/")[0] != expected.split(b"/")[0]:
        raise Corrupt(f"the container {address} is not a {expected.decode().split('/')[0]}")
    if actual != expected:
        raise UnknownVersion(
            f"the container {address} has format {actual.decode(errors='replace')}; "
            f"this Reclaim reads {expected.decode()}",
            hint="upgrade Reclaim",
        )
    if not table.schema.equals(schema):
        raise Corrupt(f"the container {address} does not have the columns of a {actual.decode()}")
    return table


def empty() -> pa.Table:
    return ENTRIES.empty_table()


def from_columns(columns: Iterable[Sequence[object]]) -> pa.Table:
    """Table of entries from a sequence of stored values for each of ``COLUMNS``."""
    arrays = [
        pa.array(values, pa.int64()).cast(field.type)
        if field.name == "created_at"
        else pa.array(values, field.type)
        for values, field in zip(columns, ENTRIES, strict=True)
    ]
    return pa.table(arrays, schema=ENTRIES)
