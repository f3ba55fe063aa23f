"""Reachability of snapshots for many classes of refs in a single pass."""

from __future__ import annotations

from collections.abc import Iterable

from reclaim.history.graph import Parents


def reach_bits(parents: Parents, tips: Iterable[tuple[int, int]]) -> list[int]:
    """For each snapshot the bits of all tips reaching it; tips are numbers with their bits."""
    reached = [0] * len(parents)
    for tip, bit in tips:
        reached[tip] |= bit
    # A parent comes after its children, so its bits are complete when it is passed.
    for number, edges in enumerate(parents):
        if bits := reached[number]:
            for parent in edges:
                reached[parent] |= bits
    return reached


def first_reaching(parents: Parents, tips: Iterable[tuple[int, int]]) -> list[int | None]:
    """For each snapshot the lowest number given to a tip reaching it, or None."""
    first: list[int | None] = [None] * len(parents)
    for tip, name in tips:
        known = first[tip]
        first[tip] = name if known is None else min(known, name)
    for number, edges in enumerate(parents):
        if (lowest := first[number]) is not None:
            for parent in edges:
                known = first[parent]
                if known is None or lowest < known:
                    first[parent] = lowest
    return first
