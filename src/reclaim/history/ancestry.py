"""Whether one snapshot is an ancestor of another, for a few pairs of a large history.

Two things are known after one pass each: which origins a snapshot reaches, and where it stands
in the tree of first parents. They answer most questions at once; what is left is walked, never
below the time of the older one, and a later question goes on where the walk stopped.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from heapq import heappop, heappush

from reclaim.history.graph import Parents

# More would make the bitmaps of a large history too heavy.
ORIGINS = 256
# Walks are forgotten when together they have seen as many snapshots.
REMEMBERED = 5_000_000


class Ancestry:
    """Questions about one graph, whose parents may be replaced by ones that reach the same."""

    def __init__(self, parents: Parents, shortcuts: Parents) -> None:
        """Walk on ``shortcuts``; it must reach between any two that are asked about what
        ``parents`` reaches, and may still be filled from the oldest on.
        """
        self._shortcuts = shortcuts
        self._origins = _origins(parents)
        self._first, self._end = _intervals(parents)
        self._walks: dict[int, _Walk] = {}
        self._size = 0

    def __call__(self, older: int, newer: int) -> bool:
        """Whether ``older`` is a proper ancestor of ``newer``."""
        if older <= newer:
            return False
        if self._first[older] <= self._first[newer] < self._end[older]:
            return True
        origins = self._origins[older]
        # A snapshot reaches every origin that its ancestors reach.
        if origins & ~self._origins[newer]:
            return False
        if origins and not self._shortcuts[older]:
            return True
        return older in self._seen(newer, older)

    def among(self, newer: int, others: frozenset[int]) -> AbstractSet[int]:
        """Those of some others that are proper ancestors of ``newer``."""
        place = self._first[newer]
        found = {older for older in others if self._first[older] <= place < self._end[older]}
        left = [older for older in others if older > newer and older not in found]
        if left:
            found |= others & self._seen(newer, max(left))
        return found

    def _seen(self, newer: int, older: int) -> set[int]:
        walk = self._walks.get(newer)
        if walk is None:
            walk = self._walks[newer] = _Walk(newer)
        if walk.waiting and walk.waiting[0] < older:
            self._size += walk.down_to(older, self._shortcuts)
            if self._size > REMEMBERED:
                self._walks.clear()
                self._size = 0
        return walk.seen


class _Walk:
    """The ancestors of one snapshot, as far down as was asked for."""

    __slots__ = ("seen", "waiting")

    def __init__(self, start: int) -> None:
        self.seen: set[int] = set()
        self.waiting = [start]

    def down_to(self, number: int, parents: Parents) -> int:
        """See every ancestor up to a number; return how many more were seen."""
        seen, waiting = self.seen, self.waiting
        before = len(seen)
        while waiting and waiting[0] < number:
            for parent in parents[heappop(waiting)]:
                if parent not in seen:
                    seen.add(parent)
                    heappush(waiting, parent)
        return len(seen) - before


def _origins(parents: Parents) -> list[int]:
    """For each snapshot a bitmap of the origins that it reaches; only the oldest have a bit."""
    origins = [0] * len(parents)
    count = 0
    for number in range(len(parents) - 1, -1, -1):
        above = parents[number]
        if not above and count < ORIGINS:
            origins[number] = 1 << count
            count += 1
        for parent in above:
            origins[number] |= origins[parent]
    return origins


def _intervals(parents: Parents) -> tuple[list[int], list[int]]:
    """Numbers of the tree of first parents in which every subtree is an interval."""
    size = [1] * len(parents)
    for number, above in enumerate(parents):
        if above:
            size[above[0]] += size[number]
    first = [0] * len(parents)
    end = [0] * len(parents)
    free = [0] * len(parents)
    roots = 0
    for number in range(len(parents) - 1, -1, -1):
        above = parents[number]
        if above:
            start = free[above[0]]
            free[above[0]] = start + size[number]
        else:
            start = roots
            roots += size[number]
        first[number], free[number], end[number] = start, start + 1, start + size[number]
    return first, end
