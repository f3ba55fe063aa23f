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

    def __init__(self, graph: Graph, layers: Sequence[int], dead: set[int]) -> None:
        self.length = dict.fromkeys(layers, 0)
        self.whole: set[int] = set()
        self.names: set[int] = set()
        self.names_live: set[int] = set()
        # In reverse, so that the parent of each layer comes before it.
        for layer in reversed(layers):
            parent, names = graph.parent[layer], graph.names_of(layer)
            self.length[layer] = self.length.get(parent, 0) + 1
            if parent == NONE or parent in self.whole:
                self.whole.add(layer)
            if names or parent in self.names:
                self.names.add(layer)
            if parent in self.names_live or not dead.issuperset(names):
                self.names_live.add(layer)


def classify(graph: Graph, dead: Collection[int]) -> dict[int, Garbage]:
    """Former role of each dead layer."""
    kinds = {layer: Garbage.UNFINISHED for layer in dead if layer in graph.faults}
    readable = [layer for layer in deletion_order(graph, dead) if layer not in kinds]
    loaded = {graph.rollup[layer] for layer in readable}
    for layer in readable:
        if graph.rolled_up[layer] and layer not in loaded:
            kinds[layer] = Garbage.SUPERSEDED_ROLLUP
    unassigned = [layer for layer in readable if layer not in kinds]
    pending = set(unassigned)
    lines = _Lines(graph, unassigned, {*kinds, *readable})
    referenced = {graph.parent[layer] for layer in pending} | {
        graph.rollup[layer] for layer in pending
    }
    referenced |= {name for layer in pending for name in graph.names_of(layer)}
    heads = sorted(pending - referenced, key=lambda layer: (-lines.length[layer], graph.ids[layer]))
    naming = [layer for layer in heads if layer in lines.whole and layer in lines.names]
    deleted = [layer for layer in naming if layer not in lines.names_live]
    _claim(graph, kinds, pending, deleted, Garbage.DELETED_DATABASE)
    _claim(graph, kinds, pending, naming, Garbage.SQUASHED_GRAPH)
    for head in heads:
        if head in kinds:
            continue
        length = lines.length[head]
        if head in lines.whole and length > 1 and _unclaimed(graph, kinds, pending, head) == length:
            _claim(graph, kinds, pending, (head,), Garbage.SQUASHED_GRAPH)
        else:
            _claim(graph, kinds, pending, (head,), Garbage.FAILED_TRANSACTION)
    # Cycles have no head.
    return kinds | {layer: Garbage.FAILED_TRANSACTION for layer in pending if layer not in kinds}


def _unclaimed(
    graph: Graph, kinds: Mapping[int, Garbage], pending: Collection[int], head: int
) -> int:
    """Number of layers of a line not yet in a group, starting from its head."""
    count = 0
    at = head
    while at in pending and at not in kinds and count <= len(pending):
        count += 1
        at = graph.parent[at]
    return count


def _claim(
    graph: Graph,
    kinds: dict[int, Garbage],
    pending: Collection[int],
    heads: Iterable[int],
    kind: Garbage,
) -> None:
    """Assign a kind to dead layers without a kind, and to all layers reached by them."""
    queue = [head for head in heads if head not in kinds]
    kinds.update(dict.fromkeys(queue, kind))
    while queue:
        for target in graph.refers(queue.pop()):
            if target in pending and target not in kinds:
                kinds[target] = kind
                queue.append(target)
