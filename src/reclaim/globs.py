"""Globs as regular expressions of Arrow: ``*`` also matches ``/``."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from reclaim.errors import InvalidInput


def check_globs(globs: Sequence[str], *, named: str = "--exclude") -> tuple[str, ...]:
    """Return the globs, after refusing empty and invalid globs."""
    if not globs:
        return ()
    # Arrow's functions are slow to import, and most commands need no glob.
    import pyarrow.compute as pc

    for glob in globs:
        try:
            if not glob:
                raise InvalidInput("an empty glob matches nothing")
            pc.match_substring_regex(pa.array([""], pa.string()), glob_regex(glob))
        except (InvalidInput, pa.ArrowInvalid) as error:
            raise InvalidInput(
                f"{named}: {glob!r} is not a glob",
                hint="write for example 'raw/*' or '*.csv'; * also stands for /",
            ) from error
    return tuple(dict.fromkeys(globs))


def first_match(texts: pa.Array | pa.ChunkedArray, globs: Sequence[str]) -> pa.Array:
    """Return the number of the first glob matching each text; null for none."""
    import pyarrow.compute as pc

    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    numbers: pa.Array = pa.nulls(len(texts), pa.int32())
    for number, glob in enumerate(globs):
        is_match = pc.fill_null(pc.match_substring_regex(texts, glob_regex(glob)), False)
        matched = pc.if_else(is_match, pa.scalar(number, pa.int32()), None)
        numbers = pc.coalesce(numbers, matched)
    return numbers


def glob_regex(glob: str) -> str:
    """Return a glob as a regular expression of Arrow, which has no look-ahead and no atomic
    groups."""
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
    """Return the end of a character set from its start; None if it does not end."""
    first = start + 1 if glob[start : start + 1] == "!" else start
    # A bracket in first position is a character of the set.
    end = glob.find("]", first + 1)
    return None if end < 0 else end


def _letters(letters: str) -> str:
    negated = letters.startswith("!")
    inside = letters[1:] if negated else letters
    escaped = "".join(f"\\{letter}" if letter in r"\[]^&~|" else letter for letter in inside)
    return f"[^{escaped}]" if negated else f"[{escaped}]"
