"""What is reached, against a plain oracle; missing layers; the order of deletion."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reclaim.errors import Corrupt
from reclaim.model import SnapshotId
from reclaim.stores.terminus.graph import Edge
from reclaim.stores.terminus.layer import Layer
from tests.support.terminus import StoreWriter, populate
from tests.terminus.graphs import deletion_order, reach
from tests.terminus.samples import read_store

Graph = dict[SnapshotId, Layer]


def sid(number: int) -> SnapshotId:
    return SnapshotId(f"{number:040x}")


@st.composite
def graphs(draw: st.DrawFn, missing: int = 0) -> Graph:
    """Any graph of up to 12 layers, cycles too; ids of ``missing`` more may be referred to."""
    size = draw(st.integers(0, 12))
    ids = st.sampled_from([sid(number) for number in range(size + missing)])
    return {
        sid(number): Layer(
            sid(number),
            draw(st.none() | ids),
            draw(st.none() | ids),
            tuple(draw(st.lists(ids, max_size=3, unique=True))),
        )
        for number in range(size)
    }


def oracle(graph: Graph, roots: Collection[SnapshotId], edges: Collection[Edge]) -> set[SnapshotId]:
    """Add what is one edge away until nothing is added. A missing layer is a KeyError."""
    live = set(roots)
    while True:
        more = set(live)
        for one in live:
            layer = graph[one]
            if Edge.PARENT in edges and layer.parent:
                more.add(layer.parent)
            if Edge.ROLLUP in edges and layer.rollup:
                more.add(layer.rollup)
            if Edge.DATA in edges:
                more.update(name for name in layer.names if name in graph)
        if more == live:
            return live
        live = more


@given(graphs(missing=2), st.data(), st.sets(st.sampled_from(list(Edge))))
def test_the_oracle_reaches_the_same(graph: Graph, data: st.DataObject, edges: set[Edge]) -> None:
    chosen = data.draw(st.sets(st.sampled_from(sorted(graph)))) if graph else set()
    try:
        expected = oracle(graph, chosen, edges)
    except KeyError:
        with pytest.raises(Corrupt, match="is missing; it is needed: a root → "):
            reach(graph, dict.fromkeys(chosen, "a root"), edges=edges)
        return
    reached = reach(graph, dict.fromkeys(chosen, "a root"), edges=edges)
    assert reached.ids == expected
    for layer in expected:
        check_chain(graph, reached.chain(layer), chosen)


def check_chain(graph: Graph, chain: tuple[str, ...], roots: Collection[str]) -> None:
    assert chain[0] == "a root"
    assert chain[1] in roots
    for source, edge, target in zip(chain[1::2], chain[2::2], chain[3::2], strict=False):
        layer = graph[SnapshotId(source)]
        assert (
            target
            in {
                Edge.PARENT: (layer.parent,),
                Edge.ROLLUP: (layer.rollup,),
                Edge.DATA: layer.names,
            }[Edge(edge)]
        )


@pytest.mark.parametrize("seed", range(3))
def test_random_stores_of_thousands_of_layers(tmp_path: Path, seed: int) -> None:
    writer = StoreWriter(tmp_path, seed=seed)
    writer.server()
    populate(writer, 1500, Random(seed))
    writer.archives = False
    writer.random.seed(seed + 100)
    for number, database in enumerate(populate(writer, 50, Random(seed + 1))):
        writer.label(f"second|{number}", database.meta[-1])
    contents = read_store(tmp_path)
    assert not contents.broken
    reached = reach(contents.layers, contents.roots)
    assert reached.ids == oracle(contents.layers, contents.roots, set(Edge))
    dead = contents.ids - reached.ids
    assert dead
    check_order(contents.layers, deletion_order(contents.layers, dead), dead)


def test_a_missing_layer_names_the_way_to_it() -> None:
    one, two, three, gone = map(sid, range(4))
    graph = {
        one: Layer(one, names=(two,)),
        two: Layer(two, rollup=three),
        three: Layer(three, parent=gone),
    }
    with pytest.raises(Corrupt) as caught:
        reach(graph, {one: "the label admin|db"})
    removal = ("the label admin|db", one, "data", two, "rollup", three, "parent", gone)
    assert (
        caught.value.message == f"the layer {gone} is missing; it is needed: {' → '.join(removal)}"
    )
    assert caught.value.details == {"layer": gone, "chain": list(removal)}


def test_a_missing_root_is_corrupt_and_missing_data_is_not() -> None:
    with pytest.raises(Corrupt, match=f"{sid(1)} is missing; it is needed: a label → {sid(1)}"):
        reach({}, {sid(1): "a label"})
    assert len(reach({sid(1): Layer(sid(1), names=(sid(2),))}, {sid(1): "a label"})) == 1


@pytest.mark.parametrize("edge", Edge)
def test_a_broken_layer_stops_only_who_reaches_it(edge: Edge) -> None:
    one, two, broken = map(sid, range(3))
    source = {
        Edge.PARENT: Layer(one, parent=broken),
        Edge.ROLLUP: Layer(one, rollup=broken),
        Edge.DATA: Layer(one, names=(broken,)),
    }[edge]
    graph = {one: source, two: Layer(two)}
    faults = {broken: "the layer is cut off"}
    assert len(reach(graph, {two: "a label"}, broken=faults)) == 1
    with pytest.raises(
        Corrupt, match=f"the layer is cut off; it is needed: a label → {one} → {edge}"
    ):
        reach(graph, {one: "a label"}, broken=faults)


def test_long_lines_are_no_problem() -> None:
    ids = [sid(number) for number in range(50_000)]
    graph = {ids[0]: Layer(ids[0])}
    graph |= {one: Layer(one, parent=under) for under, one in itertools.pairwise(ids)}
    reached = reach(graph, {ids[-1]: "a label"})
    assert len(reached) == 50_000
    assert len(reached.chain(ids[0])) == 100_000
    assert deletion_order(graph, ids) == ids[::-1]
    del graph[ids[0]]
    with pytest.raises(Corrupt) as caught:
        reach(graph, {ids[-1]: "a label"})
    assert len(caught.value.message) < 1000


@given(graphs(missing=2), st.data())
def test_nothing_left_needs_what_is_gone(graph: Graph, data: st.DataObject) -> None:
    dead = data.draw(st.sets(st.sampled_from([*sorted(graph), sid(50)])))
    order = deletion_order(graph, dead)
    assert sorted(order) == sorted(dead)
    if not cyclic(graph, dead):
        check_order(graph, order, dead)


def check_order(graph: Graph, order: list[SnapshotId], dead: Collection[SnapshotId]) -> None:
    assert sorted(order) == sorted(dead)
    place = {layer: at for at, layer in enumerate(order)}
    for one in order:
        layer = graph.get(one, Layer(one))
        for target in (layer.parent, layer.rollup):
            if target in place:
                assert place[one] < place[SnapshotId(target)]


def cyclic(graph: Graph, dead: Collection[SnapshotId]) -> bool:
    """Whether some dead layer comes back to itself through parents and rollups."""
    left = set(dead)
    while True:
        needed = {
            target
            for one in left
            if one in graph
            for target in (graph[one].parent, graph[one].rollup)
            if target in left
        }
        if needed == left:
            return bool(left)
        left = {one for one in left if one in needed}


def test_a_layer_that_cannot_be_read_goes_first() -> None:
    one, two, broken = map(sid, range(3))
    graph = {one: Layer(one), two: Layer(two, parent=one)}
    assert deletion_order(graph, [one, two, broken]) == [broken, two, one]
