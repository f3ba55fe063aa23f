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
    found: Layers, quarantines: Iterable[Quarantined], survey: LayerSurvey, reader: Reader
) -> Layers:
    """Layers of a store, with layers found only in quarantine.

    A layer readable in its place is taken from there, otherwise from quarantine.
    """
    tops = [_top(objects) for layers in quarantines for objects in layers.values()]
    aside = survey.read([top for top in tops if top], reader)
    aside = aside.filter(pc.invert(pc.is_in(aside.column("id"), found.readable())))
    return Layers.of(pa.concat_tables([found.rows, aside])) if aside.num_rows else found


def find_promised(quarantines: Iterable[Quarantined], survey: LayerSurvey) -> set[SnapshotId]:
    """Layers in quarantine, and layers named by rollup files in quarantine.

    A rollup file may be quarantined alone: its layer is in its place, and would be loaded through
    the rollup after an undo.
    """
    promised: set[SnapshotId] = set()
    for layers in quarantines:
        promised.update(layers)
        files = [one for objects in layers.values() for one in objects if one.endswith(ROLLUP)]
        promised.update(rollup for file in files if (rollup := survey.rollup_in(file)))
    return promised


def needed_by(promised: Collection[SnapshotId], layers: Layers) -> frozenset[SnapshotId]:
    """Promised layers and their existing dependencies."""
    there = {layer: "promised by a run" for layer in promised if layer in layers}
    # What is lost already cannot be kept, and stops nobody: an undo names it.
    return graph.reach(layers.graph, {}, spared=there, allow_missing=True).ids


def _top(objects: Collection[str]) -> str | None:
    """Object to read of a quarantined layer; None if only its rollup file is quarantined."""
    tops = [one for one in objects if not one.endswith(ROLLUP)]
    return next((one for one in tops if one.endswith(ARCHIVE)), tops[0] if tops else None)
