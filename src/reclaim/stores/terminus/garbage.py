"""Former roles of dead layers, derived from the graph.

A store does not record why a layer is no longer referenced. The roles are guesses for a report,
made in the following order; no decision depends on them.

1. An unreadable layer is an *unfinished layer*, left by a crash.
2. A layer written by a rollup (it has id maps), through which no dead layer is loaded, is a
   *superseded rollup*. So is a rollup whose writer died before it was used.
3. The remaining roles follow from the heads, dead layers without references from dead layers. A
   head whose line of parents is dead down to a base layer is a whole graph without its label. If
   layers of the line name others as data and none of those is live, it is a *deleted database*:
   meta graph, commit graphs and data lost their only label together. If some are live, it is a
   *squashed graph*: another graph took its place and names the same layers. A deleted database
   sharing layers with a clone looks the same.
4. A whole graph without names was a *squashed graph* if it has several layers, because each of
   them must have had a label at some time. In a store without databases it may also have been
   deleted.
5. All other layers are an *orphan of a failed transaction*: a single layer without names, or
   layers above live layers, or above dead layers of a group above. A transaction that lost a race
   leaves up to three, one in each graph. A deleted fork of a live database looks the same.

A group includes every dead layer reached by it; a layer reached by two groups belongs to the
earlier group in this list, and to a deleted database before a squashed graph.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum

from reclaim.stores.terminus.graph import NONE, Graph, deletion_order


class Garbage(StrEnum):
    """Former role of a dead layer."""

    DELETED_DATABASE = "deleted database"
    SUPERSEDED_ROLLUP = "superseded rollup"
    SQUASHED_GRAPH = "squashed graph"
    FAILED_TRANSACTION = "orphan of a failed transaction"
    UNFINISHED = "unfinished layer"


class _Lines:
    """Dead ancestors of each dead layer, itself included: their number, whether they stand on a
    base layer, and their names.
    """

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
    """Former role of each dead layer."""
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
    """Number of layers of a line not yet in a group, starting from its head."""
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
    """Assign a kind to dead layers without a kind, and to all layers reached by them."""
    pending = [top for top in tops if top not in kinds]
    kinds.update(dict.fromkeys(pending, kind))
    while pending:
        for target in graph.refers(pending.pop()):
            if target in rest and target not in kinds:
                kinds[target] = kind
                pending.append(target)
