"""Facts of a stage as people read them. A log has them by their own names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reclaim.text import size

SNAPSHOTS: Mapping[str, str] = {
    "snapshots": "",
    "live": " stay",
    "dead": " go",
    "edited": " get other parents",
    "whole": " complete again",
}
"""Counts of snapshots, which go by the store's own word, and the rest of the sentence."""
OTHERS: Mapping[str, str] = {
    "containers": "metadata files",
    "candidates": "objects to delete",
    "dropped": "referenced again",
    "claimed": "objects claimed",
    "noncurrent": "noncurrent versions",
    "left": "objects left",
}


def fact(name: str, value: Any, noun: str) -> str:
    """A fact in a few words; ``noun`` is the store's word for a snapshot."""
    if name == "bytes":
        return size(value)
    if (rest := SNAPSHOTS.get(name)) is not None:
        return f"{value} {noun if value == 1 else f'{noun}s'}{rest}"
    return f"{value} {OTHERS.get(name, name)}"


def unit_name(unit: str) -> str:
    """The unit that a stage counts in."""
    return OTHERS.get(unit, unit)
