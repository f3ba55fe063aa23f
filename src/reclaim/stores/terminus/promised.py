"""Layers promised by undoable runs, and their dependencies.

A layer in quarantine keeps the same layers as in its place: its parent, its rollup, and the layers
named in its data. Otherwise an undo would restore unloadable layers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.model import SnapshotId
from reclaim.stores.format import Reader
from reclaim.stores.terminus import graph
from reclaim.stores.terminus.addresses import ARCHIVE, ROLLUP
from reclaim.stores.terminus.layers import Layers
from reclaim.stores.terminus.survey import LayerSurvey

Quarantined = Mapping[SnapshotId, Sequence[str]]
"""Layers quarantined by a run, each with the quarantine addresses of its objects."""


def with_quarantined(
    in_store: Layers, quarantines: Iterable[Quarantined], survey: LayerSurvey, reader: Reader
) -> Layers:
    """Layers of a store, with layers found only in quarantine.

    A layer readable in its place is taken from there, otherwise from quarantine.
    """
    addresses = [
        _readable_address(objects) for layers in quarantines for objects in layers.values()
    ]
    rows = survey.read([address for address in addresses if address], reader)
    rows = rows.filter(pc.invert(pc.is_in(rows.column("id"), in_store.readable())))
    return Layers.of(pa.concat_tables([in_store.rows, rows])) if rows.num_rows else in_store


def find_promised(quarantines: Iterable[Quarantined], survey: LayerSurvey) -> set[SnapshotId]:
    """Layers in quarantine, and layers named by rollup files in quarantine.

    A rollup file may be quarantined alone: its layer is in its place, and would be loaded through
    the rollup after an undo.
    """
    promised: set[SnapshotId] = set()
    for layers in quarantines:
        promised.update(layers)
        files = [
            address
            for objects in layers.values()
            for address in objects
            if address.endswith(ROLLUP)
        ]
        promised.update(rollup for file in files if (rollup := survey.rollup_in(file)))
    return promised


def needed_by(promised: Collection[SnapshotId], layers: Layers) -> frozenset[SnapshotId]:
    """Promised layers and their existing dependencies."""
    existing = {layer: "promised by a run" for layer in promised if layer in layers}
    # Lost layers cannot be kept, and are not an error here: an undo reports them.
    return graph.reach(layers.graph, {}, spared=existing, allow_missing=True).ids


def _readable_address(objects: Collection[str]) -> str | None:
    """Object to read of a quarantined layer; None if only its rollup file is quarantined."""
    readable = [address for address in objects if not address.endswith(ROLLUP)]
    return next(
        (address for address in readable if address.endswith(ARCHIVE)),
        readable[0] if readable else None,
    )
