"""Spark schemas, made from the Arrow schemas defined beside the code that reads and writes the
rows."""

from __future__ import annotations

import pyarrow as pa

_TYPES = {
    pa.string(): "string",
    pa.list_(pa.string()): "array<string>",
    pa.binary(): "binary",
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.timestamp("us", tz="UTC"): "timestamp",
}


def spark_schema(schema: pa.Schema) -> str:
    """Return the schema of a frame with the columns of a table."""
    return ", ".join(f"`{field.name}` {_TYPES[field.type]}" for field in schema)
