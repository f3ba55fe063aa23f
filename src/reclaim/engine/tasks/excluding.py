"""Excluding candidates by globs: what a person leaves out of a plan stays.

A glob is compared with the whole address of an object, and with its path where that is known;
``*`` also stands for ``/``, and a glob that ends with ``/`` stands for all that is below. To match
either is enough: an exclusion only ever keeps more. A path that nothing tells any more is taken
from the list of an earlier apply that left the object out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks.judging import PATHS
from reclaim.errors import InvalidInput


def check_globs(globs: Sequence[str]) -> tuple[str, ...]:
    """Globs as a person gives them; one that cannot match anything is refused."""
    for glob in globs:
        try:
            if not glob:
                raise InvalidInput("an empty glob matches nothing")
            pc.match_substring_regex(pa.array([""], pa.string()), _regex(glob))
        except (InvalidInput, pa.ArrowInvalid) as error:
            raise InvalidInput(
                f"--exclude: {glob!r} is not a glob",
                hint="write for example 'raw/*' or '*.csv'; * also stands for /",
            ) from error
    return tuple(dict.fromkeys(globs))


def matching(rows: pa.Table, glob: str) -> pa.ChunkedArray:
    """Whether each candidate matches a glob."""
    pattern = _regex(glob)
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


def _regex(glob: str) -> str:
    """A glob as a regular expression of Arrow, which has no look-ahead and no atomic groups."""
    if glob.endswith("/"):
        glob += "*"
    parts, at = [], 0
    while at < len(glob):
        letter = glob[at]
        at += 1
        if letter == "*":
            parts.append(".*")
        elif letter == "?":
            parts.append(".")
        elif letter == "[" and (end := _end_of_set(glob, at)) is not None:
            parts.append(_letters(glob[at:end]))
            at = end + 1
        else:
            parts.append(re.escape(letter))
    return rf"\A(?s:{''.join(parts)})\z"


def _end_of_set(glob: str, start: int) -> int | None:
    """Where a set of letters ends that begins at a place; None if it does not end."""
    first = start + 1 if glob[start : start + 1] == "!" else start
    # A bracket that comes first is one of the letters.
    end = glob.find("]", first + 1)
    return None if end < 0 else end


def _letters(letters: str) -> str:
    negated = letters.startswith("!")
    inside = letters[1:] if negated else letters
    escaped = "".join(f"\\{one}" if one in r"\[]^&~|" else one for one in inside)
    return f"[^{escaped}]" if negated else f"[{escaped}]"
