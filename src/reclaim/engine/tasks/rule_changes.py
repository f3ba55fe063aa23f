"""Compare current rules with the rules of the last finished run, to find index entries with a new
verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks.index import Span
from reclaim.engine.tasks.lifecycle import ROWS, day_number, match, numpy_of
from reclaim.engine.tasks.lifecycle_ranges import RangeBits
from reclaim.engine.tasks.parts import Part
from reclaim.policy.lifecycle.classes import HOLDER, NEVER, BranchClasses

FOUND = pa.schema(
    [
        pa.field("partition", pa.string(), nullable=False),
        pa.field("address", pa.string(), nullable=False),
    ]
)
"""Addresses to decide on, and their partitions."""


@dataclass(frozen=True, slots=True)
class RuleChanges:
    """The current rules and ranges, and those of the last finished run."""

    classes: BranchClasses
    ranges: RangeBits
    earlier: BranchClasses
    known: RangeBits
    """The ranges of the last finished run."""

    @property
    def comparable(self) -> bool:
        """Whether a bit has the same meaning in both."""
        return self.classes.named == self.earlier.named

    def find(self, rows: pa.Table) -> pa.Table:
        """Return index entries matched on a branch by a current rule, but not in the last run."""
        days, paths = numpy_of(rows.column("day"), np.int32), rows.column("path")
        bits = self.ranges.bits[self.ranges.find(rows.column("range"))]
        matched = match(self.classes, paths, days) & bits
        if self.comparable:
            then = self.known.bits[self.known.find(rows.column("range"))]
            matched &= ~(match(self.earlier, paths, days) & then)
        return rows.filter(pa.array(matched != 0)).select(FOUND.names).cast(FOUND)


def find_windows(now: BranchClasses, then: BranchClasses) -> list[tuple[int, int]]:
    """Return ranges of days (first, last) whose entries may be matched now but were not before,
    under the same branches."""
    windows = set()
    for rule in now.rules:
        for number, latest in enumerate(rule.dates):
            if latest == NEVER:
                continue
            known = [
                earlier.dates[number]
                for earlier in then.rules
                if rule.prefix.startswith(earlier.prefix) and earlier.dates[number] != NEVER
            ]
            first = day_number(max(known)) + 1 if known else day_number(NEVER)
            if first <= day_number(latest):
                windows.add((first, day_number(latest)))
    return sorted(windows)


def in_windows(parts: Iterable[Part], windows: Sequence[tuple[int, int]]) -> list[Part]:
    """Return the parts of an index with possible entries of some days."""
    return [
        part
        for part, span in ((part, Span.of(part)) for part in parts)
        if any(span.first_day <= last and first <= span.last_day for first, last in windows)
    ]


def select_rows(ranges: RangeBits, rows: pa.Table) -> pa.Table:
    """Return entries of the index as ``ROWS``, of the ranges with bits."""
    at = ranges.find(rows.column("range"))
    columns = [
        rows.column("address"),
        rows.column("path"),
        rows.column("day"),
        pa.array(ranges.bits[at], pa.int64()),
        pa.array(ranges.holders[at], pa.int32()),
        pa.array(ranges.branches[at], pa.int32()),
    ]
    selected = pa.table(columns, schema=ROWS)
    return selected.filter(pc.not_equal(selected.column("bits"), 0))


def find_changed_parts(
    changes: RuleChanges, ranges: pa.Table, parts: Sequence[Part]
) -> Sequence[Part]:
    """Return the parts of an index, all judged before, with possible new matches.

    All parts, unless the same branches reach each range and only dates have moved. New holders make
    no difference: they only keep more.
    """
    if not changes.comparable:
        return parts
    at = changes.known.find(ranges.column("address"))
    is_known = at < len(changes.known.addresses)
    bits = numpy_of(ranges.column("bits"), np.int64)
    gained = bits & ~changes.known.bits[at] & ~HOLDER
    if (is_known & (gained != 0)).any():
        return parts
    return in_windows(parts, find_windows(changes.classes, changes.earlier))
