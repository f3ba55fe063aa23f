"""What a step of a task touches, and whether two steps could notice each other.

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
    """The tables and objects that a step reads and writes, and the prefixes that it lists."""

    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    prefixes: set[str] = field(default_factory=set)

    def add_statement(self, statement: str) -> None:
        """Note the tables of an SQL statement."""
        read, written = _tables(statement)
        self.reads |= read
        self.writes |= written

    def add(self, other: Footprint) -> bool:
        """Take in what another touches; says whether it was news."""
        before = len(self.reads) + len(self.writes) + len(self.prefixes)
        self.reads |= other.reads
        self.writes |= other.writes
        self.prefixes |= other.prefixes
        return len(self.reads) + len(self.writes) + len(self.prefixes) > before

    def conflicts(self, other: Footprint) -> bool:
        """Whether the order of two steps could matter."""
        return self._disturbs(other) or other._disturbs(self)

    def _disturbs(self, other: Footprint) -> bool:
        if not self.writes:
            return False
        if not self.writes.isdisjoint(other.reads) or not self.writes.isdisjoint(other.writes):
            return True
        return any(
            written.startswith(prefix) for prefix in other.prefixes for written in self.writes
        )


def of_object(address: str) -> str:
    """The name of an object in a footprint; tables have theirs without a slash."""
    return f"/{address}"


@lru_cache(maxsize=4_096)
def _tables(statement: str) -> tuple[frozenset[str], frozenset[str]]:
    named = frozenset(_TABLES.findall(statement))
    match = _WRITTEN.match(statement)
    written = frozenset({match.group(1)} if match else ()) & named
    return named, written
