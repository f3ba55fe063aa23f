"""Graph of layers, and reachability from the roots of a store.

Three kinds of edges keep a layer: it is the *parent* of a live layer; a live layer is loaded
through it (*rollup*); a live layer holds its id as *data*, as the graphs of a database do. The
first two must lead to a readable layer. An id held as data without a matching layer is not an edge
here: it may be any 40 digits. ``missing`` determines whether it named a layer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice

from reclaim.errors import Corrupt
from reclaim.model import SnapshotId

NONE = -1
"""Number standing for no layer."""
_UNREACHED = -2


class Edge(StrEnum):
    """How a layer keeps another."""

    PARENT = "parent"
    ROLLUP = "rollup"
    DATA = "data"


ALL_EDGES = frozenset(Edge)


@dataclass(frozen=True, slots=True)
class Graph:
    """Layers and their references, by number instead of id: there may be very many.

    ``names`` has the layers held as data by others; those of layer n are from ``starts[n]`` to
    ``starts[n + 1]``. ``faults`` has the reasons for unreadable layers; missing layers map to None.
    """

    ids: Sequence[SnapshotId]
    numbers: Mapping[SnapshotId, int]
    parent: Sequence[int]
    rollup: Sequence[int]
    starts: Sequence[int]
    names: Sequence[int]
    rolled_up: Sequence[bool]
    faults: Mapping[int, str | None]

    def __len__(self) -> int:
        return len(self.ids)

    def names_of(self, layer: int) -> Sequence[int]:
        return self.names[self.starts[layer] : self.starts[layer + 1]]

    def needs(self, layer: int) -> tuple[int, int]:
        """Layers required for loading a layer: its parent and its rollup, or ``NONE``."""
        return self.parent[layer], self.rollup[layer]

    def refers(self, layer: int) -> tuple[int, ...]:
        """All references of a layer, with ``NONE`` for a missing parent or rollup."""
        return self.parent[layer], self.rollup[layer], *self.names_of(layer)


@dataclass(frozen=True, slots=True)
class Reached:
    """Live layers, each with the reason for keeping it, along a shortest path.

    The first ``rooted`` of them are reached from labels and leases, the others only from spared
    layers. ``lost`` are missing layers allowed to be missing, each with a live layer needing it;
    ``lacking`` are missing layers needed only by spared layers.
    """

    graph: Graph
    order: Sequence[int]
    sources: Sequence[int]
    edges: Mapping[int, Edge]
    roots: dict[int, str]
    rooted: int = 0
    lost: Mapping[int, int] = field(default_factory=dict)
    lacking: Collection[int] = ()

    def __contains__(self, layer: int) -> bool:
        """Whether the layer with this number is live."""
        return self.sources[layer] != _UNREACHED

    def __len__(self) -> int:
        return len(self.order)

    @property
    def ids(self) -> frozenset[SnapshotId]:
        return frozenset(map(self.graph.ids.__getitem__, self.order))

    def chain(self, layer: SnapshotId) -> tuple[str, ...]:
        """Path from the root to the layer: the root's description, then ids and edges in turn."""
        chain: list[str] = []
        at = self.graph.numbers[layer]
        while at not in self.roots:
            chain += (self.graph.ids[at], self.edges[at])
            at = self.sources[at]
        chain += (self.graph.ids[at], self.roots[at])
        return tuple(reversed(chain))


def reach(
    graph: Graph,
    roots: Mapping[SnapshotId, str],
    *,
    spared: Mapping[SnapshotId, str] | None = None,
    edges: Collection[Edge] = ALL_EDGES,
    allow_missing: bool = False,
) -> Reached:
    """Follow the graph from the roots, each with a description such as ``the label a|b``.

    Reaching an unreadable or missing layer raises ``Corrupt``, with the path in the message.
    ``spared`` layers, such as young layers, are kept with all layers reached by them; they may
    never have been referenced, so an unreadable layer among them, or a missing dependency, is not
    an error. With ``allow_missing``, missing layers are skipped.
    """
    for root, why in roots.items():
        if root not in graph.numbers:
            raise _unusable(root, None, (why, root))
    words = {graph.numbers[root]: why for root, why in roots.items()}
    sources = [_UNREACHED] * len(graph)
    kinds: dict[int, Edge] = {}
    queue: list[int] = []
    lost: dict[int, int] = {}
    lacking: set[int] = set()
    reached = Reached(graph, queue, sources, kinds, words)
    single = [(Edge.PARENT, graph.parent), (Edge.ROLLUP, graph.rollup)]
    single = [(edge, targets) for edge, targets in single if edge in edges]

    def follow(first: Iterable[int], *, sparing: bool) -> None:
        at = len(queue)
        for layer in first:
            if sources[layer] == _UNREACHED:
                sources[layer] = NONE
                queue.append(layer)
        for layer in islice(queue, at, None):
            if layer in graph.faults:
                id, fault = graph.ids[layer], graph.faults[layer]
                if fault is None and sparing:
                    lacking.add(layer)
                elif fault is None and allow_missing and layer not in words:
                    lost[layer] = sources[layer]
                elif not sparing:
                    raise _unusable(id, fault, reached.chain(id))
                continue
            for edge, targets in single:
                target = targets[layer]
                if target != NONE and sources[target] == _UNREACHED:
                    sources[target], kinds[target] = layer, edge
                    queue.append(target)
            if Edge.DATA in edges:
                for target in graph.names_of(layer):
                    if sources[target] == _UNREACHED:
                        sources[target], kinds[target] = layer, Edge.DATA
                        queue.append(target)

    follow(words, sparing=False)
    rooted = len(queue)
    also = {graph.numbers[id]: why for id, why in (spared or {}).items()}
    reached.roots.update(
        (layer, why) for layer, why in also.items() if sources[layer] == _UNREACHED
    )
    follow(also, sparing=True)
    gone = {*lost, *lacking}
    if not gone:
        return replace(reached, rooted=rooted)
    for layer in gone:
        sources[layer] = _UNREACHED
    order = [layer for layer in queue if layer not in gone]
    rooted -= sum(layer in gone for layer in queue[:rooted])
    return replace(reached, order=order, rooted=rooted, lost=lost, lacking=lacking)


def deletion_order(graph: Graph, dead: Collection[int]) -> list[int]:
    """Dead layers, children before parents and layers before their rollups.

    After deleting any initial part of this order, no remaining layer needs a deleted layer. The
    dependencies of unreadable layers are unknown; they are deleted as early as their dependents
    allow. A cycle, which no writer creates, comes last.
    """
    needed_by = dict.fromkeys(dead, 0)
    for layer in needed_by:
        for target in graph.needs(layer):
            if target in needed_by:
                needed_by[target] += 1
    free = [layer for layer, count in needed_by.items() if not count]
    order = sorted(free, key=lambda layer: (layer not in graph.faults, graph.ids[layer]))
    for layer in order:
        for target in graph.needs(layer):
            if target in needed_by:
                needed_by[target] -= 1
                if not needed_by[target]:
                    order.append(target)
    cycles = [layer for layer, count in needed_by.items() if count]
    return order + sorted(cycles, key=graph.ids.__getitem__)


def _unusable(layer: SnapshotId, fault: str | None, chain: Sequence[str]) -> Corrupt:
    what = f"the layer {layer} is missing" if fault is None else fault
    shown = chain if len(chain) <= 12 else (*chain[:5], "…", *chain[-6:])
    return Corrupt(
        f"{what}; it is needed: {' → '.join(shown)}",
        hint="restore it from a backup, or remove the references to it; nothing was deleted",
        layer=layer,
        chain=list(chain),
    )
