"""Globs as regular expressions of Arrow: ``*`` also stands for ``/``."""

from __future__ import annotations

import re


def glob_regex(glob: str) -> str:
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
