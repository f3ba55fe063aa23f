"""The frontier of an expired snapshot: the kept ones that are next below it.

It lists every kept snapshot that is reached through expired ones only, depth first in the order
of parents, without those that are ancestors of others in it. Its first member stays in any case:
on it hangs the first-parent line.
"""

from __future__ import annotations

from itertools import compress

from reclaim.history.graph import Parents

Frontier = tuple[int, ...]


def reparent(parents: Parents, reached: bytearray, kept: bytearray) -> dict[int, Frontier]:
    """New parents for each reached and kept snapshot that has an expired parent.

    From the oldest on: a frontier is put together from those of the parents, and pruned on the
    way, so that expired snapshots in a line share one tuple. What is pruned early would be pruned
    in the end as well, for whatever prunes it either stays or has a descendant that does.

    A kept snapshot that can be a member has a place in bitmaps, and is its own frontier. ``reach``
    has the members that a snapshot reaches, itself included; ``below`` has the proper ancestors
    of its frontier, which is what this one can prune.
    """
    joins, members, newest_child = _roles(parents, reached, kept)
    edited: dict[int, Frontier] = {}
    places: dict[int, int] = {}
    frontiers: list[Frontier] = [()] * len(parents)
    reach = [0] * len(parents)
    below = [0] * len(parents)
    for number in compress(range(len(parents) - 1, -1, -1), reversed(reached)):
        above = parents[number]
        if len(above) == 1:
            # Most have one parent, whose bitmaps and frontier are shared.
            (parent,) = above
            under, pruned, frontier = reach[parent], below[parent], frontiers[parent]
            if newest_child[parent] == number:
                reach[parent] = below[parent] = 0
                frontiers[parent] = ()
        else:
            under = pruned = 0
            frontier = ()
            for parent in above:
                under |= reach[parent]
                if joins[number]:
                    pruned |= below[parent]
                    frontier += frontiers[parent]
            if frontier:
                first, *rest = dict.fromkeys(frontier)
                frontier = (first, *[one for one in rest if not pruned >> places[one] & 1])
            for parent in above:
                # Memory is for the lines that are open at one time, not for all.
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
    """Snapshots that need their parents' frontiers, possible members, and the newest child of each.

    After its newest child nothing asks for a snapshot any more.
    """
    joins = bytearray(len(parents))
    members = bytearray(len(parents))
    newest_child = [-1] * len(parents)
    for number in compress(range(len(parents) - 1, -1, -1), reversed(reached)):
        above = parents[number]
        join = not kept[number]
        for parent in above:
            newest_child[parent] = number
            if not kept[parent]:
                join = True
        if join:
            joins[number] = 1
            for parent in above:
                members[parent] = kept[parent]
    return joins, members, newest_child
