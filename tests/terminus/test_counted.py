"""Layers are counted by their names and as they are read; objects that stay, as they are listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from reclaim.engine.local.engine import LocalEngine
from reclaim.errors import IncompleteRead
from reclaim.model import SnapshotId
from reclaim.run.plan.planning import make_plan
from reclaim.storage import KeyRange
from reclaim.stores.format import DecodesSnapshots
from reclaim.stores.terminus.format import TerminusFormat
from reclaim.stores.terminus.layers import Layers
from reclaim.stores.terminus.survey import LayerSurvey
from tests.terminus.world import Past, World, bury


@pytest.fixture
def past(world: World) -> Past:
    return bury(world)


class Losing(LocalEngine):
    """An engine with a mistake: it loses a layer as it reads."""

    def __init__(self, lost: SnapshotId, world: World) -> None:
        super().__init__(lambda _url: world.storage, clock=world.clock)
        self._lost = lost

    def survey(self, format: DecodesSnapshots, ranges: Sequence[KeyRange]) -> pa.Table:
        rows = super().survey(format, ranges)
        return rows.filter(pc.fill_null(pc.not_equal(rows.column("id"), self._lost), True))


def test_every_layer_is_counted(world: World, past: Past) -> None:
    document = world.plan().document
    there = len(past.live | past.dead)
    assert document.expected.snapshots == document.read.snapshots == there


def test_a_layer_that_is_listed_and_not_read(
    world: World, past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    def as_listed(
        _survey: LayerSurvey, listed: Layers, _named: pa.Array, _reader: object
    ) -> Layers:
        return listed

    monkeypatch.setattr(LayerSurvey, "complete", as_listed)
    # Nothing needs the layer, so that nothing misses it either.
    engine = Losing(past.torn, world)
    with pytest.raises(IncompleteRead, match="counts 9 snapshots, but 8 were read"):
        make_plan(world.store(), engine, opener=world.opener(world.storage))


@pytest.mark.parametrize("kind", ["layer", "rollup"])
def test_an_object_of_a_live_layer_that_would_not_be_kept(
    world: World, past: Past, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    assert past.live
    named = TerminusFormat.layer_objects

    def losing(format: TerminusFormat, *layers: Any) -> Mapping[str, Mapping[SnapshotId, str]]:
        return {one: {} if one == kind else names for one, names in named(format, *layers).items()}

    monkeypatch.setattr(TerminusFormat, "layer_objects", losing)
    with pytest.raises(IncompleteRead, match="belong to live layers"):
        world.plan()
