"""Footprints: the things that a step touches, and whether two steps could notice each other.

Two steps that touch nothing in common have the same effect in both orders. So a scheduler need not
try both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from reclaim.catalog.database.schema import metadata

CLOCK = "the clock"
"""The time, as something that steps read and some of them write."""

_TABLES = re.compile(r"\b(" + "|".join(map(re.escape, metadata.tables)) + r")\b(?!\.)")
_WRITTEN = re.compile(r"^\s*(?:INSERT(?: OR \w+)? INTO|UPDATE|DELETE FROM)\s+(\w+)")


@dataclass(slots=True, eq=False)
class Footprint:
    """The tables and objects that a step reads and writes, and the prefixes that it lists.

    Folders count as objects: a step writes those that it makes, and reads those that it finds.
    """

    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    prefixes: set[str] = field(default_factory=set)
    levels: set[str] = field(default_factory=set)
    """Folders of which it lists what lies directly in them; each ends with a slash."""

    def add_statement(self, statement: str) -> None:
        """Note the tables of an SQL statement."""
        read, written = _tables(statement)
        self.reads |= read
        self.writes |= written

    def add(self, other: Footprint) -> bool:
        """Take in what another touches; says whether it was news."""
        before = self._size
        self.reads |= other.reads
        self.writes |= other.writes
        self.prefixes |= other.prefixes
        self.levels |= other.levels
        return self._size > before

    @property
    def _size(self) -> int:
        return len(self.reads) + len(self.writes) + len(self.prefixes) + len(self.levels)

    def conflicts(self, other: Footprint) -> bool:
        """Whether the order of two steps could matter."""
        return self.disturbs(other) or other.disturbs(self)

    def disturbs(self, other: Footprint) -> bool:
        """Whether this one writes anything that the other touches."""
        if not self.writes:
            return False
        if not self.writes.isdisjoint(other.reads) or not self.writes.isdisjoint(other.writes):
            return True
        if other.levels and any(_above(written) in other.levels for written in self.writes):
            return True
        return any(
            written.startswith(prefix) for prefix in other.prefixes for written in self.writes
        )


def of_object(address: str) -> str:
    """The name of an object in a footprint; tables have theirs without a slash."""
    return f"/{address}"


def of_folder(address: str) -> str:
    """The name of a folder as one of the levels of a footprint; "" is the uppermost."""
    return of_object(f"{address.rstrip('/')}/" if address else "")


def _above(name: str) -> str:
    """The folder that something lies in; what ends with a slash is a folder itself."""
    return f"{name.rstrip('/').rpartition('/')[0]}/"


@lru_cache(maxsize=4_096)
def _tables(statement: str) -> tuple[frozenset[str], frozenset[str]]:
    named = frozenset(_TABLES.findall(statement))
    match = _WRITTEN.match(statement)
    written = frozenset({match.group(1)} if match else ()) & named
    return named, written
