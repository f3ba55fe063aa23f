"""Claims: for each snapshot, a bounded number of refs for which a rule keeps it.

Refs with the same rules differ only in how far back a rule reaches from each tip. Refs are ranked
by this distance, furthest first, then by the order of the history. Ranks are passed down the graph;
at each snapshot only the ``WIDTH`` best continue. Where a rule has ended for a rank, it has ended
for all later ranks. A pass therefore costs a fixed number of traversals, however many refs there
are, and the rule does not keep a snapshot without a claim.
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
"""Maximum number of refs named in a reason."""
WIDTH = NAMED + 1
"""Refs kept for each snapshot. The extra ref shows whether more refs exist than a reason names."""

Ranks = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Claims:
    """Snapshots kept by a rule of a class of refs, and the refs.

    ``ranked`` lists refs by rank, as indexes into the refs of the history; ``ranks`` lists for each
    snapshot the best ranks of the refs keeping it, in order.
    """

    ranked: Sequence[int]
    ranks: Sequence[Ranks]


def first_older(history: History, cutoff: datetime) -> int:
    """Age, counted in snapshots, of the newest snapshot written before an instant."""
    snapshots = history.snapshots
    return bisect_left(
        history.by_time, True, key=lambda number: snapshots[number].written_at < cutoff
    )


def reached(history: History, refs: Sequence[int]) -> Claims:
    """Refs reaching each snapshot."""
    return _to_all_parents(history, refs, None)


def near_tips(history: History, refs: Iterable[int], within: Duration) -> Claims:
    """Refs reaching each snapshot within a duration of their tips."""
    cutoffs = {ref: within.before(_written(history, history.tips[ref])) for ref in refs}
    ranked = sorted(cutoffs, key=lambda ref: (cutoffs[ref], ref))
    ends = {cutoff: first_older(history, cutoff) for cutoff in set(cutoffs.values())}
    return _to_all_parents(history, ranked, [ends[cutoffs[ref]] for ref in ranked])


@dataclass(frozen=True, slots=True, eq=False)
class Periods:
    """Number of each snapshot's period, and its level.

    Levels count the periods along a first-parent chain, from the oldest snapshot on. Where a clock
    ran backwards, a repeated period counts again: merging both would make decisions depend on
    expired snapshots.
    """

    numbers: Sequence[int]
    levels: Sequence[int]


def find_periods(history: History, counted: Mapping[str, Iterable[int]]) -> dict[str, Periods]:
    """Periods of each kind along the first-parent chains of the refs counting by it.

    For ``last`` each snapshot is a period of its own.
    """
    hours = hours_of(snapshot.written_at for snapshot in history.snapshots)
    days = [hour // 24 for hour in hours]
    # An origin is its own parent here, which saves a test in the loop. Its level does not
    # matter: levels are only compared along a single chain.
    firsts = [edges[0] if edges else number for number, edges in enumerate(history.parents)]
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
    """Refs for which each snapshot is the newest of a recent period of their chain."""
    ranked = sorted(refs, key=lambda ref: (levels[history.tips[ref]], ref))
    ends = [levels[history.tips[ref]] - count for ref in ranked]
    passing = _at_tips(history, ranked)
    holding = list(passing)
    parents = history.parents
    # A parent comes after its children and so receives their ranks before its own turn.
    for number in compress(range(len(parents)), passing):
        edges, ranks = parents[number], passing[number]
        level = levels[number]
        if ends[ranks[-1]] >= level:
            ranks = tuple([rank for rank in ranks if ends[rank] < level])
        own_ranks = holding[number]
        if own_ranks and ends[own_ranks[-1]] >= level:
            holding[number] = tuple([rank for rank in own_ranks if ends[rank] < level])
        if edges and ranks:
            parent = edges[0]
            parent_ranks = passing[parent]
            passing[parent] = _merge(parent_ranks, ranks) if parent_ranks else ranks
            if levels[parent] != level:
                parent_ranks = holding[parent]
                holding[parent] = _merge(parent_ranks, ranks) if parent_ranks else ranks
    return Claims(ranked, holding)


def _to_all_parents(history: History, ranked: Sequence[int], ends: list[int] | None) -> Claims:
    """Pass ranks on to all ancestors younger than the end of each rank.

    An old snapshot may have younger ancestors where a clock ran backwards: a rank continues as long
    as younger ancestors are possible.
    """
    claims = _at_tips(history, ranked)
    youngest = history.ages if ends is None else _youngest_below(history)
    parents = history.parents
    for number in compress(range(len(parents)), claims):
        edges, ranks = parents[number], claims[number]
        if ends is not None and ends[ranks[-1]] <= youngest[number]:
            age = youngest[number]
            ranks = claims[number] = tuple([rank for rank in ranks if ends[rank] > age])
            if not ranks:
                continue
        for parent in edges:
            parent_ranks = claims[parent]
            if not parent_ranks:
                claims[parent] = ranks
            elif parent_ranks is not ranks:
                claims[parent] = _merge(parent_ranks, ranks)
    if ends is not None and not history.monotone:
        for number, age in enumerate(history.ages):
            claims[number] = tuple([rank for rank in claims[number] if ends[rank] > age])
    return Claims(ranked, claims)


def _youngest_below(history: History) -> Sequence[int]:
    """Age of the youngest snapshot among each snapshot and its ancestors."""
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


def _merge(first: Ranks, second: Ranks) -> Ranks:
    """Best ranks of both. Reuse an argument where it has them all, to share tuples along lines."""
    if len(first) == WIDTH and second[0] >= first[-1]:
        return first
    if len(second) == WIDTH and first[0] >= second[-1]:
        return second
    best = tuple(sorted({*first, *second})[:WIDTH])
    return first if best == first else best


def _written(history: History, number: int) -> datetime:
    return history.snapshots[number].written_at
