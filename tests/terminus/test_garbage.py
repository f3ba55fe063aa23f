"""What dead layers were: one story for each kind, and none is left out."""

from __future__ import annotations

import itertools
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reclaim.model import SnapshotId
from reclaim.stores.terminus.garbage import Garbage
from reclaim.stores.terminus.layer import Layer
from tests.support.terminus import StoreWriter, TerminusDatabase, populate
from tests.terminus.graphs import classify, reach
from tests.terminus.samples import read_store
from tests.terminus.test_graph import Graph, graphs, sid


@pytest.fixture
def writer(tmp_path: Path) -> StoreWriter:
    writer = StoreWriter(tmp_path)
    writer.server()
    return writer


def database(writer: StoreWriter, commits: int = 4, name: str = "admin|db") -> TerminusDatabase:
    made = TerminusDatabase(writer, name)
    for number in range(commits):
        made.commit([f"value {number}"])
    return made


def kinds(writer: StoreWriter) -> dict[SnapshotId, Garbage]:
    contents = read_store(writer.folder)
    reached = reach(contents.layers, contents.roots, broken=contents.broken)
    return classify(contents.layers, contents.ids - reached.ids)


def test_a_deleted_database(writer: StoreWriter) -> None:
    database(writer, name="admin|other")
    gone = database(writer)
    rollups = [gone.roll_up(), gone.roll_up_commits()]
    gone.delete()
    layers = [*gone.data, *gone.commits, *gone.meta, *rollups]
    assert kinds(writer) == dict.fromkeys(layers, Garbage.DELETED_DATABASE)


def test_a_squashed_graph(writer: StoreWriter) -> None:
    live = database(writer)
    old = list(live.meta)
    live.squash()
    assert kinds(writer) == dict.fromkeys(old, Garbage.SQUASHED_GRAPH)


def test_a_squashed_database_that_is_deleted_later(writer: StoreWriter) -> None:
    gone = database(writer)
    layers = [*gone.data, *gone.commits, *gone.meta]
    layers.append(gone.squash())
    gone.delete()
    assert kinds(writer) == dict.fromkeys(layers, Garbage.DELETED_DATABASE)


def test_a_graph_that_names_nothing(writer: StoreWriter) -> None:
    base = writer.layer(values=["a"])
    tip = writer.layer(base, values=["b"])
    assert kinds(writer) == dict.fromkeys([base, tip], Garbage.SQUASHED_GRAPH)


def test_superseded_rollups(writer: StoreWriter) -> None:
    live = database(writer)
    old = [live.roll_up(), live.roll_up_commits()]
    old.append(writer.rollup(live.commits[-1], parent=live.commits[0], names=live.data[1:]))
    live.roll_up()
    live.roll_up_commits()
    assert kinds(writer) == dict.fromkeys(old, Garbage.SUPERSEDED_ROLLUP)


@pytest.mark.parametrize("commits", [0, 3])
@pytest.mark.parametrize("late", [False, True])
def test_failed_transactions(writer: StoreWriter, commits: int, late: bool) -> None:
    live = database(writer, commits)
    orphans = live.fail(["x"], late=late)
    expected = Garbage.FAILED_TRANSACTION
    if late and not commits:
        # The first transaction of a database, whole but for its label, looks like a deleted one.
        expected = Garbage.DELETED_DATABASE
    assert kinds(writer) == dict.fromkeys(orphans, expected)


def test_a_failed_transaction_of_a_deleted_database(writer: StoreWriter) -> None:
    gone = database(writer)
    (orphan,) = gone.fail(["x"])
    gone.commit()
    gone.delete()
    found = kinds(writer)
    assert found.pop(orphan) is Garbage.FAILED_TRANSACTION
    assert set(found.values()) == {Garbage.DELETED_DATABASE}


def test_an_orphan_beside_a_squashed_graph_that_names_nothing(writer: StoreWriter) -> None:
    line = [writer.layer()]
    for _ in range(4):
        line.append(writer.layer(line[-1]))
    orphan = writer.layer(line[2], layer=sid(0))
    expected = dict.fromkeys(line, Garbage.SQUASHED_GRAPH)
    assert kinds(writer) == expected | {orphan: Garbage.FAILED_TRANSACTION}


@pytest.mark.parametrize("archives", [True, False])
def test_unfinished_layers(writer: StoreWriter, archives: bool) -> None:
    live = database(writer)
    writer.archives = archives
    (orphan,) = live.fail(["x"])
    path = writer.folder / writer.path(orphan)
    if archives:
        path.write_bytes(path.read_bytes()[:-1])
    else:
        (path / "value_dictionary_blocks.tfc").unlink()
    assert kinds(writer) == {orphan: Garbage.UNFINISHED}


@given(graphs(missing=2), st.data())
def test_every_dead_layer_has_a_kind(graph: Graph, data: st.DataObject) -> None:
    dead = data.draw(st.sets(st.sampled_from([*sorted(graph), sid(50)])))
    found = classify(graph, dead)
    assert found.keys() == dead
    assert {one for one, kind in found.items() if kind is Garbage.UNFINISHED} == dead - graph.keys()


def test_random_stores_have_every_kind(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path)
    populate(writer, 1500, Random(1))
    assert {*kinds(writer).values()} == {*Garbage} - {Garbage.UNFINISHED}


def test_many_orphans_on_one_long_dead_line_take_no_time() -> None:
    line = [sid(number) for number in range(20_000)]
    graph = {line[0]: Layer(line[0])}
    graph |= {one: Layer(one, parent=under) for under, one in itertools.pairwise(line)}
    orphans = [sid(number) for number in range(100_000, 105_000)]
    graph |= {one: Layer(one, parent=line[10_000]) for one in orphans}
    found = classify(graph, list(graph))
    assert {found[one] for one in line} == {Garbage.SQUASHED_GRAPH}
    assert {found[one] for one in orphans} == {Garbage.FAILED_TRANSACTION}
