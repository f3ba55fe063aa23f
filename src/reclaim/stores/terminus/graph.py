"""What the roots of a store reach.

Three kinds of edge keep a layer: it is the *parent* of a live one; a live one is loaded through
it (*rollup*); a live one holds its id as *data*, as the graphs of a database do. The first two
must lead to a layer that can be read. An id that is held as data and names no layer is no edge:
it may be any 40 digits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from reclaim.errors import Corrupt
from reclaim.model import SnapshotId
from reclaim.stores.terminus.layer import Layer

Layers = Mapping[SnapshotId, Layer]
NONE_BROKEN: Mapping[SnapshotId, str] = {}


class Edge(StrEnum):
    """How one layer keeps another."""

    PARENT = "parent"
    ROLLUP = "rollup"
    DATA = "data"


ALL_EDGES = frozenset(Edge)


@dataclass(frozen=True, slots=True)
class Step:
    """What keeps a layer: an edge from another one or, if there is no other, a root's words."""

    source: SnapshotId | None
    why: str


@dataclass(frozen=True, slots=True)
class Reached:
    """The live layers, each with what keeps it. Of several ways the shortest is kept."""

    steps: Mapping[SnapshotId, Step]

    def __contains__(self, layer: object) -> bool:
        return layer in self.steps

    def __len__(self) -> int:
        return len(self.steps)

    def chain(self, layer: SnapshotId) -> tuple[str, ...]:
        """From the root to the layer: the root's words, then ids and edges in turn."""
        return _chain(self.steps, layer)


def reach(
    layers: Layers,
    roots: Mapping[SnapshotId, str],
    *,
    broken: Mapping[SnapshotId, str] = NONE_BROKEN,
    edges: Collection[Edge] = ALL_EDGES,
) -> Reached:
    """What the roots reach. A root comes with words that say what it is: ``the label a|b``.

    ``broken`` are layers that exist and cannot be read, and why. To reach one of them, or one
    that is not there, is ``Corrupt`` and the message has the way to it. A layer that is only
    young, and being written just now, is for the caller to spare: it must not be among the roots.
    """
    steps = {layer: Step(None, why) for layer, why in roots.items()}
    queue = list(steps)
    for layer in queue:
        found = layers.get(layer)
        if found is None:
            raise _unusable(steps, layer, broken.get(layer))
        for edge, target in edges_of(found, edges):
            if target in steps:
                continue
            if edge is Edge.DATA and target not in layers and target not in broken:
                continue
            steps[target] = Step(layer, edge)
            queue.append(target)
    return Reached(steps)


def edges_of(
    layer: Layer, edges: Collection[Edge] = ALL_EDGES
) -> Iterator[tuple[Edge, SnapshotId]]:
    """What a layer keeps alive, and how."""
    if layer.parent is not None and Edge.PARENT in edges:
        yield Edge.PARENT, layer.parent
    if layer.rollup is not None and Edge.ROLLUP in edges:
        yield Edge.ROLLUP, layer.rollup
    if layer.names and Edge.DATA in edges:
        for name in layer.names:
            yield Edge.DATA, name


def targets(layer: Layer | None) -> Iterator[SnapshotId]:
    """What a layer cannot be loaded without: its parent and its rollup."""
    if layer is not None:
        if layer.parent is not None:
            yield layer.parent
        if layer.rollup is not None:
            yield layer.rollup


def deletion_order(layers: Layers, dead: Collection[SnapshotId]) -> list[SnapshotId]:
    """The dead layers, children before parents and layers before their rollups.

    Whatever part of it is deleted, from the start on, no layer that is left needs one that is
    gone. Of layers that cannot be read nothing is known but who needs them; they go as early as
    that allows. A cycle, which no writer makes, comes last.
    """
    needed_by = dict.fromkeys(dead, 0)
    for layer in needed_by:
        for target in targets(layers.get(layer)):
            if target in needed_by:
                needed_by[target] += 1
    free = [layer for layer, count in needed_by.items() if not count]
    order = sorted(free, key=lambda layer: (layer in layers, layer))
    for layer in order:
        for target in targets(layers.get(layer)):
            if target in needed_by:
                needed_by[target] -= 1
                if not needed_by[target]:
                    order.append(target)
    return order + sorted(layer for layer, count in needed_by.items() if count)


def _chain(steps: Mapping[SnapshotId, Step], layer: SnapshotId) -> tuple[str, ...]:
    chain: list[str] = []
    at: SnapshotId | None = layer
    while at is not None:
        step = steps[at]
        chain += (at, step.why)
        at = step.source
    return tuple(reversed(chain))


def _unusable(steps: Mapping[SnapshotId, Step], layer: SnapshotId, fault: str | None) -> Corrupt:
    chain = _chain(steps, layer)
    what = f"the layer {layer} is missing" if fault is None else fault
    shown = chain if len(chain) <= 12 else (*chain[:5], "…", *chain[-6:])
    return Corrupt(
        f"{what}; it is needed: {' → '.join(shown)}",
        hint="restore it from a backup, or give up what refers to it; nothing was deleted",
        layer=layer,
        chain=list(chain),
    )
