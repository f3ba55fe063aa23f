"""The real stores: everything in them is read, and exactly the dead layers are dead."""

from __future__ import annotations

from collections import Counter

import pytest

from reclaim.stores.terminus import graph
from reclaim.stores.terminus.garbage import Garbage
from reclaim.stores.terminus.graph import ALL_EDGES, Edge
from reclaim.stores.terminus.labels import encode_name
from tests.terminus.graphs import classify, deletion_order, reach
from tests.terminus.samples import Contents, Sample


def unreached(contents: Contents, edges: frozenset[Edge] = ALL_EDGES) -> set[str]:
    reached = reach(contents.layers, contents.roots, edges=edges)
    return {layer for layer in contents.layers if layer not in reached.ids}


def test_everything_is_read(sample: Sample, contents: Contents) -> None:
    assert not contents.broken
    assert contents.layers.keys() == sample.live | sample.dead
    assert sum(layer.rollup is not None for layer in contents.layers.values()) == 3
    assert sum(layer.rolled_up for layer in contents.layers.values()) == 4
    found = {
        encode_name(label.name): (label.version, label.layer) for label in contents.labels.values()
    }
    assert found == sample.labels


def test_exactly_the_dead_layers_are_unreached(sample: Sample, contents: Contents) -> None:
    assert unreached(contents) == sample.dead


@pytest.mark.parametrize("edge", [Edge.ROLLUP, Edge.DATA])
def test_without_an_edge_live_layers_would_go(
    sample: Sample, contents: Contents, edge: Edge
) -> None:
    assert unreached(contents, ALL_EDGES - {edge}) > sample.dead


@pytest.mark.parametrize("edge", [Edge.ROLLUP, Edge.DATA])
def test_the_test_of_dead_layers_sees_a_missing_edge(
    sample: Sample, contents: Contents, edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: a collector that does not follow one kind of edge."""
    real = graph.reach
    monkeypatch.setattr(
        graph, "reach", lambda found, roots, edges: real(found, roots, edges={*edges} - {edge})
    )
    with pytest.raises(AssertionError):
        test_exactly_the_dead_layers_are_unreached(sample, contents)


def test_labels_and_parents_reach_six(contents: Contents) -> None:
    assert len(reach(contents.layers, contents.roots, edges={Edge.PARENT})) == 6


def test_a_chain_leads_from_a_label_to_data(sample: Sample, contents: Contents) -> None:
    reached = reach(contents.layers, contents.roots)
    for layer in reached.ids:
        chain = reached.chain(layer)
        assert chain[0].startswith("the label ")
        assert chain[-1] == layer
    longest = max((reached.chain(layer) for layer in reached.ids), key=len)
    assert longest[:1] == ("the label admin|testdb",)
    assert "data" in longest


def test_children_go_before_parents(sample: Sample, contents: Contents) -> None:
    order = deletion_order(contents.layers, sorted(contents.ids - reach_ids(contents)))
    assert set(order) == sample.dead
    for at, layer in enumerate(order):
        parent = contents.layers[layer].parent
        assert parent not in order[:at]


def reach_ids(contents: Contents) -> set[str]:
    return {*reach(contents.layers, contents.roots).ids}


def test_what_the_garbage_was(sample: Sample, contents: Contents) -> None:
    kinds = classify(contents.layers, sorted(contents.ids - reach_ids(contents)))
    assert kinds.keys() == sample.dead
    assert Counter(kinds.values()) == {
        Garbage.SQUASHED_GRAPH: 12,
        Garbage.SUPERSEDED_ROLLUP: 1,
        Garbage.FAILED_TRANSACTION: 1,
    }


def test_without_its_label_a_database_is_deleted(contents: Contents) -> None:
    roots = {layer: why for layer, why in contents.roots.items() if "testdb" not in why}
    dead = sorted(contents.ids - reach(contents.layers, roots).ids)
    assert Counter(classify(contents.layers, dead).values()) == {
        Garbage.DELETED_DATABASE: 40,
        Garbage.SUPERSEDED_ROLLUP: 1,
        Garbage.FAILED_TRANSACTION: 1,
    }
