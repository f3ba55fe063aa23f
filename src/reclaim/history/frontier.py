"""The frontier of an expired snapshot: the kept ones that are next below it.

It lists every kept snapshot that is reached through expired ones only, depth first in the order
of parents, without those that are ancestors of others in it. Its first member stays in any case:
on it hangs the first-parent line.
"""

from __future__ import annotations

from reclaim.history.ancestry import Ancestry
from reclaim.history.graph import Parents

Frontier = tuple[int, ...]


def reparent(parents: Parents, reached: bytearray, kept: bytearray) -> dict[int, Frontier]:
    """New parents for each reached and kept snapshot that has an expired parent.

    From the oldest on: a frontier is put together from those of the parents, and pruned on the
    way, so that expired snapshots in a line share one tuple. What is pruned early would be pruned
    in the end as well, for whatever prunes it either stays or has a descendant that does.
    """
    edited: dict[int, Frontier] = {}
    frontiers: dict[int, Frontier] = {}
    joins: dict[tuple[Frontier, Frontier], Frontier] = {}
    shortcuts = list(parents)
    is_ancestor = Ancestry(parents, shortcuts)
    for number in range(len(parents) - 1, -1, -1):
        if not reached[number]:
            continue
        above = parents[number]
        if kept[number] and all(kept[parent] for parent in above):
            continue
        parts = [(parent,) if kept[parent] else frontiers[parent] for parent in above]
        joined = parts[0]
        for part in parts[1:]:
            # Branches that merge each other again and again ask the same once more.
            pair = joined, part
            if pair not in joins:
                joins[pair] = _join(*pair, is_ancestor)
            joined = joins[pair]
        if kept[number]:
            edited[number] = shortcuts[number] = joined
        else:
            frontiers[number] = joined
    return edited


def _join(left: Frontier, right: Frontier, is_ancestor: Ancestry) -> Frontier:
    """Two pruned frontiers as one. Only what is new can prune or be pruned, and the right first."""
    if left is right:
        return left
    known = frozenset(left)
    fresh = [member for member in right if member not in known]
    entering = []
    for member in fresh:
        others = (*left, *fresh) if member == right[0] else left
        for other in others:
            if other < member and is_ancestor(member, other):
                break
        else:
            entering.append(member)
    if not entering:
        return left
    rest = frozenset(left[1:])
    if not rest:
        return (*left, *entering)
    oldest = max(rest)
    pruned = frozenset().union(
        *[is_ancestor.among(member, rest) for member in entering if member < oldest]
    )
    return (left[0], *[member for member in left[1:] if member not in pruned], *entering)
