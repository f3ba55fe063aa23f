"""The schemas of frames, in Spark's words; those of files are Arrow's, beside what writes them."""

from __future__ import annotations

import pyarrow as pa

_TYPES = {pa.string(): "string", pa.int64(): "bigint", pa.int32(): "int"}


def of(schema: pa.Schema) -> str:
    """The schema of a table of work."""
    return ", ".join(f"`{field.name}` {_TYPES[field.type]}" for field in schema)


LINES = "address string, rows bigint, sha256 string, group string, told string"
"""What a task gives back: the parts that it wrote, and what it has to tell."""

LISTED = "address string, size bigint, last_modified timestamp"
CONTAINERS = "address string, kind string, detail string, entries bigint, cause int"

OWNED = f"owner string, {CONTAINERS}"
NEEDS = "owner string, address string"

READ = "address string, path string, kind string, entries bigint, cause int"
SURVIVORS = (
    "address string, size bigint, last_modified timestamp, path string, kind string, cause int"
)
CANDIDATES = (
    "address string, size bigint, last_modified timestamp, kind string, belongs_to string, "
    "guard string, path string, reason string"
)
GOING = "address string, size bigint, kind string, reason string, identity string"
RANKED = f"{GOING}, rank int"
PACKED = "rows binary"
