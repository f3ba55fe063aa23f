"""Frontier of an expired snapshot: the nearest kept snapshots below it.

The frontier lists every kept snapshot reached through expired snapshots only, depth first in parent
order, without ancestors of other members. Its first member always stays, because the first-parent
line continues there.
"""

from __future__ import annotations

from itertools import compress

from reclaim.history.graph import Parents

Frontier = tuple[int, ...]


def reparent(parents: Parents, reached: bytearray, kept: bytearray) -> dict[int, Frontier]:
    """Return new parents for each reached and kept snapshot with an expired parent.

    Snapshots are processed from the oldest on. A frontier combines the frontiers of the parents and
    is pruned on the way, so expired snapshots in a line share a tuple. Early pruning is safe: the
    pruned members would also be pruned at the end, because each pruning member either stays or has
    a descendant that does.

    A kept snapshot that can be a member has a place in bitmaps and is its own frontier. ``reach``
    holds the members reached by a snapshot, itself included; ``below`` holds the proper ancestors
    of its frontier, which a descendant can prune.
    """
    joins, members, newest_child = _roles(parents, reached, kept)
    edited: dict[int, Frontier] = {}
    places: dict[int, int] = {}
    frontiers: list[Frontier] = [()] * len(parents)
    reach = [0] * len(parents)
    below = [0] * len(parents)
    for number in compress(range(len(parents) - 1, -1, -1), reversed(reached)):
        edges = parents[number]
        if len(edges) == 1:
            # Most have one parent, whose bitmaps and frontier are shared.
            (parent,) = edges
            under, pruned, frontier = reach[parent], below[parent], frontiers[parent]
            if newest_child[parent] == number:
                reach[parent] = below[parent] = 0
                frontiers[parent] = ()
        else:
            under = pruned = 0
            frontier = ()
            for parent in edges:
                under |= reach[parent]
                if joins[number]:
                    pruned |= below[parent]
                    frontier += frontiers[parent]
            if frontier:
                first, *others = dict.fromkeys(frontier)
                frontier = (first, *[other for other in others if not pruned >> places[other] & 1])
            for parent in edges:
                # Free memory of finished lines; only open lines need it.
                if newest_child[parent] == number:
                    reach[parent] = below[parent] = 0
                    frontiers[parent] = ()
        if kept[number]:
            if joins[number]:
                edited[number] = frontier
            below[number] = under
            if members[number]:
                places[number] = len(places)
                under |= 1 << places[number]
                frontiers[number] = (number,)
            reach[number] = under
        else:
            reach[number], below[number], frontiers[number] = under, pruned, frontier
    return edited


def _roles(
    parents: Parents, reached: bytearray, kept: bytearray
) -> tuple[bytearray, bytearray, list[int]]:
    """Snapshots that need their parents' frontiers, possible members, and each newest child.

    After its newest child a snapshot is not needed any more.
    """
    joins = bytearray(len(parents))
    members = bytearray(len(parents))
    newest_child = [-1] * len(parents)
    for number in compress(range(len(parents) - 1, -1, -1), reversed(reached)):
        edges = parents[number]
        join = not kept[number]
        for parent in edges:
            newest_child[parent] = number
            if not kept[parent]:
                join = True
        if join:
            joins[number] = 1
            for parent in edges:
                members[parent] = kept[parent]
    return joins, members, newest_child
