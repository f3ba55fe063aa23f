"""Layers that runs have promised to bring back, and what these need to be whole.

A layer in quarantine keeps what it would keep in its place: its parent, its rollup, and the layers
that it names as data. Otherwise an undo would bring back what cannot be loaded any more.
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
"""The layers that a run has set aside, each with the addresses of its objects there."""


def with_quarantined(
    found: Layers, quarantines: Iterable[Quarantined], survey: LayerSurvey, reader: Reader
) -> Layers:
    """Layers of a store, and those that are in quarantine instead.

    What can be read in its place counts as it is there, and otherwise as it is aside.
    """
    tops = [_top(objects) for layers in quarantines for objects in layers.values()]
    aside = survey.read([top for top in tops if top], reader)
    aside = aside.filter(pc.invert(pc.is_in(aside.column("id"), found.readable())))
    return Layers.of(pa.concat_tables([found.rows, aside])) if aside.num_rows else found


def find_promised(quarantines: Iterable[Quarantined], survey: LayerSurvey) -> set[SnapshotId]:
    """The layers in quarantine, and those that rollup files there point at.

    A rollup file may lie there alone: its layer is in its place, and would be loaded through the
    rollup again.
    """
    promised: set[SnapshotId] = set()
    for layers in quarantines:
        promised.update(layers)
        files = [one for objects in layers.values() for one in objects if one.endswith(ROLLUP)]
        promised.update(rollup for file in files if (rollup := survey.rollup_in(file)))
    return promised


def needed_by(promised: Collection[SnapshotId], layers: Layers) -> frozenset[SnapshotId]:
    """Promised layers and all that they need, as far as it is there."""
    there = {layer: "promised by a run" for layer in promised if layer in layers}
    # What is lost already cannot be kept, and stops nobody: an undo names it.
    return graph.reach(layers.graph, {}, spared=there, allow_missing=True).ids


def _top(objects: Collection[str]) -> str | None:
    """The object to read of a layer that was set aside; None if only its rollup was."""
    tops = [one for one in objects if not one.endswith(ROLLUP)]
    return next((one for one in tops if one.endswith(ARCHIVE)), tops[0] if tops else None)
