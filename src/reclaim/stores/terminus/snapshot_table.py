"""Layers of a store as listed in a plan: parents, and reasons for keeping each layer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reclaim.stores.format import LISTED_SNAPSHOTS
from reclaim.stores.terminus.graph import NONE, Edge, Reached
from reclaim.stores.terminus.layers import Layers

KEPT_BY = {
    Edge.PARENT: "the parent of layer ",
    Edge.ROLLUP: "the rollup of layer ",
    Edge.DATA: "named in the data of layer ",
}


def list_layers(layers: Layers, reached: Reached) -> pa.Table:
    """Layers as ``LISTED_SNAPSHOTS``. They have neither times nor messages of their own."""
    rows = len(layers)
    parent = np.asarray(layers.graph.parent[:rows], np.int64)
    known = pa.array(layers.graph.ids, pa.string())
    columns = (
        layers.ids,
        *(pa.nulls(rows, field.type) for field in list(LISTED_SNAPSHOTS)[1:3]),
        _parents(known, parent),
        _kept_by(known, reached, rows),
    )
    return pa.table(list(columns), schema=LISTED_SNAPSHOTS)


def _parents(known: pa.Array, parent: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    """List with the parent of each layer, if any."""
    has_parent = parent != NONE
    starts = np.concatenate(([0], np.cumsum(has_parent))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(starts), known.take(pa.array(parent[has_parent])))


def _kept_by(known: pa.Array, reached: Reached, rows: int) -> pa.Array:
    """Reason for keeping each live layer: a root, or another live layer."""
    kinds = list(KEPT_BY)
    edges = {layer: edge for layer, edge in reached.edges.items() if layer < rows}
    kept = np.fromiter(edges, np.int64, len(edges))
    edge = np.fromiter(
        (kinds.index(edge_kind) for edge_kind in edges.values()), np.int64, len(edges)
    )
    sources = np.asarray(reached.sources, np.int64)[kept]
    words = pa.array(list(KEPT_BY.values()), pa.string()).take(pa.array(edge))
    sentences = pc.binary_join_element_wise(words, known.take(pa.array(sources)), "")
    roots = {root: why for root, why in reached.roots.items() if root < rows}
    at = np.full(rows, NONE)
    at[kept] = np.arange(len(kept))
    at[list(roots)] = len(kept) + np.arange(len(roots))
    whole = pa.concat_arrays([sentences, pa.array(list(roots.values()), pa.string())])
    return whole.take(pa.array(at, mask=at == NONE))
