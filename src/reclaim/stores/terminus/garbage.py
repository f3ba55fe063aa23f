"""Former roles of dead layers, as far as the graph can tell.

Nothing in a store records why a layer is not referred to any more. These are guesses for a
report, made in this order; nothing is decided by them.

1. A layer that cannot be read is an *unfinished layer*, left by a crash.
2. A layer that a rollup wrote (it has id maps) and that no dead layer is loaded through is a
   *superseded rollup*. So is one whose writer died before it was put to use.
3. The rest is taken from its tops, dead layers that no dead layer refers to. A top whose line of
   parents is dead down to a base layer is a whole graph that lost its label. If layers of the line
   name others as data and none of those is live, a *deleted database*: meta graph, commit graphs
   and data lost their only label together. If some are live, a *squashed graph*: another graph
   took its place and names the same. A deleted database whose layers a clone shares looks like
   this, too.
4. A whole graph that names nothing was a *squashed graph* if it has several layers, for each of
   them must have had a label once. In a store without databases it may as well have been deleted.
5. Everything else is an *orphan of a failed transaction*: one layer that names nothing, or layers
   on top of live ones, or of dead ones that belong to a group above. A transaction that lost a
   race leaves up to three, one in each graph. A deleted fork of a database that still lives looks
   like this, too.

A group takes with it every dead layer that it reaches; where two groups reach one, the earlier
in this list has it, and a deleted database before a squashed graph.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum

from reclaim.stores.terminus.graph import NONE, Graph, deletion_order


class Garbage(StrEnum):
    """The former role of a dead layer."""

    DELETED_DATABASE = "deleted database"
    SUPERSEDED_ROLLUP = "superseded rollup"
    SQUASHED_GRAPH = "squashed graph"
    FAILED_TRANSACTION = "orphan of a failed transaction"
    UNFINISHED = "unfinished layer"


class _Lines:
    """The dead layers below each dead layer, itself included: how many there are, whether
    they stand on a base layer, and what they name."""

    def __init__(self, graph: Graph, rest: Sequence[int], dead: set[int]) -> None:
        self.length = dict.fromkeys(rest, 0)
        self.whole: set[int] = set()
        self.names: set[int] = set()
        self.names_live: set[int] = set()
        # Parents come last, so that those of each layer are known before it.
        for one in reversed(rest):
            parent, names = graph.parent[one], graph.names_of(one)
            self.length[one] = self.length.get(parent, 0) + 1
            if parent == NONE or parent in self.whole:
                self.whole.add(one)
            if names or parent in self.names:
                self.names.add(one)
            if parent in self.names_live or not dead.issuperset(names):
                self.names_live.add(one)


def classify(graph: Graph, dead: Collection[int]) -> dict[int, Garbage]:
    """The former role of each dead layer."""
    kinds = {one: Garbage.UNFINISHED for one in dead if one in graph.faults}
    readable = [one for one in deletion_order(graph, dead) if one not in kinds]
    loaded = {graph.rollup[one] for one in readable}
    for one in readable:
        if graph.rolled_up[one] and one not in loaded:
            kinds[one] = Garbage.SUPERSEDED_ROLLUP
    left = [one for one in readable if one not in kinds]
    rest = set(left)
    lines = _Lines(graph, left, {*kinds, *readable})
    below = {graph.parent[one] for one in rest} | {graph.rollup[one] for one in rest}
    below |= {name for one in rest for name in graph.names_of(one)}
    tops = sorted(rest - below, key=lambda one: (-lines.length[one], graph.ids[one]))
    naming = [one for one in tops if one in lines.whole and one in lines.names]
    deleted = [one for one in naming if one not in lines.names_live]
    _claim(graph, kinds, rest, deleted, Garbage.DELETED_DATABASE)
    _claim(graph, kinds, rest, naming, Garbage.SQUASHED_GRAPH)
    for top in tops:
        if top in kinds:
            continue
        length = lines.length[top]
        if top in lines.whole and length > 1 and _unclaimed(graph, kinds, rest, top) == length:
            _claim(graph, kinds, rest, (top,), Garbage.SQUASHED_GRAPH)
        else:
            _claim(graph, kinds, rest, (top,), Garbage.FAILED_TRANSACTION)
    # Cycles have no top.
    return kinds | {one: Garbage.FAILED_TRANSACTION for one in rest if one not in kinds}


def _unclaimed(graph: Graph, kinds: Mapping[int, Garbage], rest: Collection[int], top: int) -> int:
    """How many layers of a line belong to no group yet, from its top on."""
    count = 0
    at = top
    while at in rest and at not in kinds and count <= len(rest):
        count += 1
        at = graph.parent[at]
    return count


def _claim(
    graph: Graph,
    kinds: dict[int, Garbage],
    rest: Collection[int],
    tops: Iterable[int],
    kind: Garbage,
) -> None:
    """Give a kind to dead layers that have none, and to those that they reach."""
    pending = [top for top in tops if top not in kinds]
    kinds.update(dict.fromkeys(pending, kind))
    while pending:
        for target in graph.refers(pending.pop()):
            if target in rest and target not in kinds:
                kinds[target] = kind
                pending.append(target)
