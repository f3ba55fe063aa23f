"""Missing layers named in the data of live layers.

An id in data may be any 40 digits, such as a hash stored by a user. It is the id of a layer if it
is a whole value in a graph with the predicate used by servers to name layers. A predicate is stored
only in the first layer using it, so its ancestors are checked as well.

A collection never deletes layers named by a live layer. An id without a layer therefore means lost
layers: a shard is missing, or was restored only partially. Layers referenced only by lost layers
look dead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from reclaim.errors import Corrupt
from reclaim.model import SnapshotId
from reclaim.stores.terminus import tfc
from reclaim.stores.terminus.files import PREDICATES, VALUES
from reclaim.stores.terminus.graph import NONE, Reached
from reclaim.stores.terminus.layers import Layers
from reclaim.stores.terminus.reading import read_dictionary
from reclaim.stores.terminus.view import LayerView

IDENTIFIER = b"http://terminusdb.com/schema/layer#identifier"
"""Predicate whose values are the ids of layers."""


def find_missing(
    view: LayerView, layers: Layers, reached: Reached
) -> Mapping[SnapshotId, SnapshotId]:
    """Find missing layers, each with a layer naming it.

    Only layers reached from labels and leases are checked: spared layers may never have been whole.
    If no ids are unknown, which is nearly always the case, no files are read.
    """
    rooted = np.zeros(len(layers.graph), np.bool_)
    rooted[np.fromiter(reached.order[: reached.rooted], np.int64, reached.rooted)] = True
    which = rooted[layers.unknown.owner]
    if not which.any():
        return {}
    owners = layers.unknown.owner[which]
    ids = layers.unknown.ids.filter(pa.array(which))
    graphs = _Graphs(view, layers)
    missing: dict[SnapshotId, SnapshotId] = {}
    for owner in np.unique(owners).tolist():
        if graphs.names_layers(owner):
            whole = graphs.values(owner)
            held = ids.filter(pa.array(owners == owner)).to_pylist()
            name = layers.graph.ids[owner]
            missing |= {SnapshotId(id): name for id in held if id in whole}
    return missing


class _Graphs:
    """Graphs of layers, and whether they name layers."""

    def __init__(self, view: LayerView, layers: Layers) -> None:
        self._view = view
        self._layers = layers
        self._known: dict[int, bool] = {}

    def names_layers(self, layer: int) -> bool:
        """Whether a layer or an ancestor of it has the predicate of ids."""
        walked: list[int] = []
        at, has_ids = layer, False
        while at != NONE and at < len(self._layers) and not has_ids:
            if at in self._known:
                has_ids = self._known[at]
                break
            walked.append(at)
            has_ids = IDENTIFIER in tfc.entries(self._read(at, PREDICATES))
            at = self._layers.graph.parent[at]
        self._known |= dict.fromkeys(walked, has_ids)
        return has_ids

    def values(self, layer: int) -> frozenset[str]:
        """Values shaped like ids, without the quotes of older versions."""
        whole = (entry.strip(b'"') for entry in tfc.entries(self._read(layer, VALUES)))
        return frozenset(entry.decode() for entry in whole if tfc.ID.fullmatch(entry))

    def _read(self, layer: int, file: int) -> bytes:
        address: str = self._layers.addresses[layer].as_py()
        try:
            return read_dictionary(self._view, address, file)
        except OSError as error:
            raise Corrupt(f"the layer {address} cannot be read any more: {error}") from error


def shards_of(missing: Sequence[SnapshotId]) -> str:
    """Shards of missing layers, abbreviated."""
    shards = sorted({layer[:3] for layer in missing})
    shown = ", ".join(shards[:5])
    return f"{len(shards)} shards: {shown}{', …' if len(shards) > 5 else ''}"
