"""The globs that shield objects, by whole addresses."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from reclaim.engine.tasks.parts import Part, read_part
from reclaim.storage import Storage


def shielded(rows: pa.Table, parts: Sequence[Part], storage: Storage) -> pa.Array:
    """The glob that shields each object, if one does."""
    globs: dict[str, int] = {}
    for part in parts:
        for row in read_part(storage, part).to_pylist():
            address = row["address"].lower()
            globs[address] = min(globs.get(address, row["glob"]), row["glob"])
    names = rows.column("address").to_pylist()
    return pa.array([globs.get(name.lower()) for name in names], pa.int32())
