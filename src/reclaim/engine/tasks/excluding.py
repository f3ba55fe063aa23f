"""Excluding candidates by globs: what a person leaves out of a plan stays.

A glob is compared with the whole address of an object, and with its path where that is known;
``*`` also stands for ``/``, and a glob that ends with ``/`` stands for all that is below. To match
either is enough: an exclusion only ever keeps more. A path that nothing tells any more is taken
from the list of an earlier apply that left the object out.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks.judging import PATHS
from reclaim.globs import glob_regex


def matching(rows: pa.Table, glob: str) -> pa.ChunkedArray:
    """Whether each candidate matches a glob."""
    pattern = glob_regex(glob)
    columns = (pc.match_substring_regex(rows.column(name), pattern) for name in ("address", "path"))
    by_address, by_path = (pc.fill_null(column, False) for column in columns)
    return pc.or_(by_address, by_path)


def split(rows: pa.Table, globs: Sequence[str]) -> tuple[pa.Table, pa.Table, list[int]]:
    """The candidates that no glob matches, the others, and how many each glob matches."""
    excluded: pa.ChunkedArray = pa.chunked_array([pa.repeat(pa.scalar(False), rows.num_rows)])
    matches = []
    for glob in globs:
        mask = matching(rows, glob)
        matches.append(pc.sum(mask).as_py() or 0)
        excluded = pc.or_(excluded, mask)
    return rows.filter(pc.invert(excluded)), rows.filter(excluded), matches


def find_paths(left_out: pa.Table, globs: Sequence[str]) -> pa.Table:
    """The paths in the list of an earlier apply that one of the globs matches, as ``PATHS``."""
    known = left_out.filter(pc.is_valid(left_out.column("path"))).select(PATHS.names)
    _, matched, _ = split(known, globs)
    return matched.cast(PATHS)
