"""Text for people: sizes, and lines without control characters."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Escape control characters, for a terminal."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def size(count: int) -> str:
    """Format a number of bytes."""
    if count < 1024:
        return f"{count} B"
    amount = count / 1024
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            return f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} PiB"
