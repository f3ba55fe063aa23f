"""Claims: for each snapshot the refs for which one rule keeps it, a bounded number of them.

Refs with the same rules differ only in how far back a rule goes from each of their tips. They are
ranked by that, the furthest first, then in the order of the history, and ranks are passed down the
graph: of those that arrive at a snapshot only the ``WIDTH`` best go on. Where a rule has ended for
a rank, it has ended for all ranks that come after it. So a pass costs a fixed number of traversals,
however many refs there are, and a snapshot without a claim is not kept by the rule.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import compress

from reclaim.model import History
from reclaim.policy.duration import Duration
from reclaim.policy.periods import hours_of, numbers_of

NAMED = 3
"""How many refs a reason names."""
WIDTH = NAMED + 1
"""How many are kept for each snapshot: one more tells that there are others."""

Ranks = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Claims:
    """Snapshots that one rule of one class keeps, and for which refs.

    ``ranked`` has the refs by rank, as indexes into the refs of the history; ``ranks`` has for
    each snapshot the best ranks whose refs keep it, in order.
    """

    ranked: Sequence[int]
    ranks: Sequence[Ranks]


def first_older(history: History, cutoff: datetime) -> int:
    """The age of the newest snapshot written before an instant, counted in snapshots."""
    snapshots = history.snapshots
    return bisect_left(
        history.by_time, True, key=lambda number: snapshots[number].written_at < cutoff
    )


def reached(history: History, refs: Sequence[int]) -> Claims:
    """The refs that reach each snapshot."""
    return _to_all_parents(history, refs, None)


def near_tips(history: History, refs: Iterable[int], within: Duration) -> Claims:
    """The refs that reach each snapshot within a duration of their tips."""
    cutoffs = {ref: within.before(_written(history, history.tips[ref])) for ref in refs}
    ranked = sorted(cutoffs, key=lambda ref: (cutoffs[ref], ref))
    ends = {cutoff: first_older(history, cutoff) for cutoff in set(cutoffs.values())}
    return _to_all_parents(history, ranked, [ends[cutoffs[ref]] for ref in ranked])


@dataclass(frozen=True, slots=True, eq=False)
class Periods:
    """The period of each snapshot, as a number, and its level.

    Levels grow by one with each period along a first-parent chain, from the oldest on. Where a
    clock ran backwards, a period that comes again counts again: to join the two would make what
    is kept depend on snapshots that expire.
    """

    numbers: Sequence[int]
    levels: Sequence[int]


def find_periods(history: History, counted: Mapping[str, Iterable[int]]) -> dict[str, Periods]:
    """The periods of each kind along the first-parent chains of the refs that count by it.

    For ``last`` each snapshot is a period of its own.
    """
    hours = hours_of(snapshot.written_at for snapshot in history.snapshots)
    days = [hour // 24 for hour in hours]
    # An origin stands for its own parent, so that the loop needs no question. What its level is
    # does not matter: levels are compared along one chain only.
    firsts = [above[0] if above else number for number, above in enumerate(history.parents)]
    periods = {}
    chains: dict[tuple[int, ...], bytearray] = {}
    for name, refs in counted.items():
        if name == "last":
            numbers: Sequence[int] = range(len(hours))
        else:
            numbers = numbers_of(name, hours, days)
        levels = [1] * len(hours)
        tips = tuple([history.tips[ref] for ref in refs])
        if tips not in chains:
            chains[tips] = _chains(firsts, tips)
        on_chain = chains[tips]
        oldest_first = compress(range(len(hours) - 1, -1, -1), reversed(on_chain))
        if name == "last":
            for number in oldest_first:
                levels[number] = levels[firsts[number]] + 1
        else:
            for number in oldest_first:
                first = firsts[number]
                level = levels[first]
                levels[number] = level if numbers[first] == numbers[number] else level + 1
        periods[name] = Periods(numbers, levels)
    return periods


def _chains(firsts: Sequence[int], tips: Iterable[int]) -> bytearray:
    """One byte for each snapshot: whether it is on the first-parent chain of some tip."""
    on_chain = bytearray(len(firsts))
    for tip in tips:
        number = tip
        while not on_chain[number]:
            on_chain[number] = 1
            number = firsts[number]
    return on_chain


def newest_of_periods(
    history: History, refs: Iterable[int], levels: Sequence[int], count: int
) -> Claims:
    """The refs for which each snapshot is the newest of one of the last periods of their chain."""
    ranked = sorted(refs, key=lambda ref: (levels[history.tips[ref]], ref))
    ends = [levels[history.tips[ref]] - count for ref in ranked]
    passing = _at_tips(history, ranked)
    holding = list(passing)
    parents = history.parents
    # A parent comes after its children, so that what they pass on is met on the way.
    for number in compress(range(len(parents)), passing):
        above, ranks = parents[number], passing[number]
        level = levels[number]
        if ends[ranks[-1]] >= level:
            ranks = tuple([rank for rank in ranks if ends[rank] < level])
        held = holding[number]
        if held and ends[held[-1]] >= level:
            holding[number] = tuple([rank for rank in held if ends[rank] < level])
        if above and ranks:
            parent = above[0]
            there = passing[parent]
            passing[parent] = _merge(there, ranks) if there else ranks
            if levels[parent] != level:
                there = holding[parent]
                holding[parent] = _merge(there, ranks) if there else ranks
    return Claims(ranked, holding)


def _to_all_parents(history: History, ranked: Sequence[int], ends: list[int] | None) -> Claims:
    """Pass ranks on to all ancestors that are younger than the age that is the end of each.

    An old snapshot may have younger ancestors, where a clock ran backwards: a rank goes on as long
    as there can be any.
    """
    claims = _at_tips(history, ranked)
    youngest = history.ages if ends is None else _youngest_below(history)
    parents = history.parents
    for number in compress(range(len(parents)), claims):
        above, ranks = parents[number], claims[number]
        if ends is not None and ends[ranks[-1]] <= youngest[number]:
            age = youngest[number]
            ranks = claims[number] = tuple([rank for rank in ranks if ends[rank] > age])
            if not ranks:
                continue
        for parent in above:
            there = claims[parent]
            if not there:
                claims[parent] = ranks
            elif there is not ranks:
                claims[parent] = _merge(there, ranks)
    if ends is not None and not history.monotone:
        for number, age in enumerate(history.ages):
            claims[number] = tuple([rank for rank in claims[number] if ends[rank] > age])
    return Claims(ranked, claims)


def _youngest_below(history: History) -> Sequence[int]:
    """The age of the youngest among each snapshot and its ancestors."""
    if history.monotone:
        return history.ages
    youngest = list(history.ages)
    for number in range(len(youngest) - 1, -1, -1):
        for parent in history.parents[number]:
            youngest[number] = min(youngest[number], youngest[parent])
    return youngest


def _at_tips(history: History, ranked: Iterable[int]) -> list[Ranks]:
    claims: list[Ranks] = [()] * len(history.snapshots)
    for rank, ref in enumerate(ranked):
        tip = history.tips[ref]
        if len(claims[tip]) < WIDTH:
            claims[tip] += (rank,)
    return claims


def _merge(some: Ranks, others: Ranks) -> Ranks:
    """The best ranks of two; one of them, where it has them all, so that lines share a tuple."""
    if len(some) == WIDTH and others[0] >= some[-1]:
        return some
    if len(others) == WIDTH and some[0] >= others[-1]:
        return others
    best = tuple(sorted({*some, *others})[:WIDTH])
    return some if best == some else best


def _written(history: History, number: int) -> datetime:
    return history.snapshots[number].written_at
