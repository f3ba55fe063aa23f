"""Exclude candidates by globs: matching objects stay.

A glob is compared with the whole address of an object, and with its path if known; ``*`` also
matches ``/``, and a glob ending in ``/`` matches everything below. Matching either is enough: an
exclusion only ever keeps more. A path no longer recorded elsewhere comes from the list of an
earlier apply that excluded the object.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks.judging import PATHS
from reclaim.globs import glob_regex

KNOWN_PATH = "known_path"
"""A path missing in the plan, matched by a glob."""


def matching(rows: pa.Table, glob: str) -> pa.ChunkedArray:
    """Return whether each candidate matches a glob."""
    pattern = glob_regex(glob)
    names = [name for name in ("address", "path", KNOWN_PATH) if name in rows.column_names]
    columns = (pc.match_substring_regex(rows.column(name), pattern) for name in names)
    return reduce(pc.or_, (pc.fill_null(column, False) for column in columns))


def split(rows: pa.Table, globs: Sequence[str]) -> tuple[pa.Table, pa.Table, list[int]]:
    """Return the candidates no glob matches, the others, and the number each glob matches.

    Rows may have a ``KNOWN_PATH`` in addition to their path; both are compared.
    """
    excluded: pa.ChunkedArray = pa.chunked_array([pa.repeat(pa.scalar(False), rows.num_rows)])
    matches = []
    for glob in globs:
        mask = matching(rows, glob)
        matches.append(pc.sum(mask).as_py() or 0)
        excluded = pc.or_(excluded, mask)
    if KNOWN_PATH in rows.column_names:
        path = pc.coalesce(rows.column("path"), rows.column(KNOWN_PATH))
        at = rows.schema.get_field_index("path")
        rows = rows.set_column(at, rows.schema.field(at), path).drop_columns([KNOWN_PATH])
    return rows.filter(pc.invert(excluded)), rows.filter(excluded), matches


def find_paths(left_out: pa.Table, globs: Sequence[str]) -> pa.Table:
    """Return the paths in a list matched by a glob, as ``PATHS``."""
    known = left_out.filter(pc.is_valid(left_out.column("path"))).select(PATHS.names)
    _, matched, _ = split(known, globs)
    return matched.cast(PATHS)
