"""The functions on graphs, by ids and layers instead of numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa

from reclaim.model import SnapshotId
from reclaim.stores.format import SNAPSHOTS
from reclaim.stores.terminus import garbage, graph
from reclaim.stores.terminus.addresses import ARCHIVE, stem
from reclaim.stores.terminus.garbage import Garbage
from reclaim.stores.terminus.graph import ALL_EDGES, Edge, Graph, Reached
from reclaim.stores.terminus.layer import Layer
from reclaim.stores.terminus.layers import Layers
from reclaim.stores.terminus.reading import ROLLED_UP

Known = Mapping[SnapshotId, Layer]
Broken = Mapping[SnapshotId, str]


def graph_of(layers: Known, broken: Broken) -> Graph:
    """Layers, and those that cannot be read, numbered as those of a store are."""
    rows = [
        {
            "address": stem(one) + ARCHIVE,
            "size": 0,
            "last_modified": 0,
            "id": one,
            "parent": layer and layer.parent,
            "through": layer and layer.rollup,
            "names": layer and layer.names,
            "note": ROLLED_UP if layer and layer.rolled_up else None,
            "fault": broken.get(one),
        }
        for one in {**layers, **broken}
        for layer in [layers.get(one)]
    ]
    return Layers.of(pa.Table.from_pylist(rows, SNAPSHOTS)).graph


def reach(
    layers: Known,
    roots: Mapping[SnapshotId, str],
    *,
    broken: Broken | None = None,
    edges: Collection[Edge] = ALL_EDGES,
) -> Reached:
    return graph.reach(graph_of(layers, broken or {}), roots, edges=edges)


def deletion_order(layers: Known, dead: Collection[SnapshotId]) -> list[SnapshotId]:
    found = _with_broken(layers, dead)
    order = graph.deletion_order(found, [found.numbers[one] for one in dead])
    return [found.ids[one] for one in order]


def classify(layers: Known, dead: Collection[SnapshotId]) -> dict[SnapshotId, Garbage]:
    found = _with_broken(layers, dead)
    kinds = garbage.classify(found, [found.numbers[one] for one in dead])
    return {found.ids[one]: kind for one, kind in kinds.items()}


def _with_broken(layers: Known, dead: Collection[SnapshotId]) -> Graph:
    return graph_of(layers, {one: "cut off" for one in dead if one not in layers})
