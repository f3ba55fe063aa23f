"""Layers that live ones name and that are not there: their edges would vanish with them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from pathlib import Path

import pytest

from reclaim.errors import Corrupt, IncompleteRead
from reclaim.model import SnapshotId
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine
from reclaim.stores.terminus.store import TerminusStore
from tests.support.terminus import TerminusDatabase
from tests.support.terminus import store as writing
from tests.terminus.samples import unpack
from tests.terminus.world import Past, World, age_all, bury

LATER = MoveToQuarantine().keep


@pytest.fixture
def past(world: World) -> Past:
    return bury(world)


def allowing(world: World) -> TerminusStore:
    store = world.store()
    store.allow_missing()
    return store


@pytest.fixture
def database(world: World) -> TerminusDatabase:
    database = TerminusDatabase(world.write, "admin|db")
    for number in range(4):
        database.commit([f"value {number}"])
    for number in range(4):
        world.write.layer(values=[f"dead {number}"])
    world.age()
    return database


def lose(world: World, layers: Collection[SnapshotId], how: str) -> None:
    for layer in layers:
        shard = world.folder / layer[:3]
        if how == "files":
            (world.folder / world.write.path(layer)).unlink(missing_ok=True)
        else:
            shutil.rmtree(shard, ignore_errors=True)
            if how == "empty":
                shard.mkdir()


@pytest.mark.parametrize("how", ["files", "shards", "empty"])
@pytest.mark.parametrize("which", ["commits", "data"])
def test_a_graph_that_is_gone(
    world: World, database: TerminusDatabase, how: str, which: str
) -> None:
    plan = world.plan()
    lost = getattr(database, which)
    lose(world, lost, how)
    before = world.there()
    for work in (world.plan, lambda: world.apply(plan, removal=DELETE)):
        with pytest.raises(IncompleteRead, match=f"{len(lost)} layers") as error:
            work()
        assert error.value.details["missing"] == sorted(lost)
        assert "the label admin|db" in error.value.message
        assert "--unsafe-allow-missing-layers" in (error.value.hint or "")
    assert world.there() == before


def test_a_person_may_allow_it(world: World, database: TerminusDatabase) -> None:
    lose(world, database.commits, "files")
    made = world.plan(store=allowing(world))
    [warning] = [one for one in made.document.warnings if "4 layers" in one]
    assert database.commits[0][:3] in warning
    with pytest.raises(IncompleteRead):
        world.apply(made)
    run = world.apply(made, store=allowing(world)).run
    assert world.there() == set(database.meta)
    world.clock.advance(LATER)
    with pytest.raises(IncompleteRead):
        world.purge()
    assert set(database.data) <= world.aside()
    world.undo(run)
    assert set(database.data) <= world.there()


def test_a_parent_may_be_allowed_to_be_missing_and_a_label_not(world: World, past: Past) -> None:
    (world.folder / world.write.path(past.main[0])).unlink()
    with pytest.raises(Corrupt, match="is missing"):
        world.plan()
    made = world.plan(store=allowing(world))
    assert past.main[0] in " ".join(made.document.warnings)
    world.apply(made, store=allowing(world))
    assert world.there() == past.live - {past.main[0]}
    (world.folder / world.write.path(past.main[2])).unlink()
    with pytest.raises(Corrupt, match="the label main"):
        world.plan(store=allowing(world))


def test_a_run_of_ours_leaves_nothing_that_is_missed(
    world: World, database: TerminusDatabase
) -> None:
    """Squashed graphs, rollups and deleted databases: what is left names only what is left."""
    other = TerminusDatabase(world.write, "admin|other")
    other.commit()
    database.roll_up_commits()
    database.squash()
    database.commit()
    database.roll_up()
    other.delete()
    world.age()
    world.apply(world.plan(), removal=DELETE)
    world.quiet()


def test_a_second_mark_misses_what_is_gone(world: World, database: TerminusDatabase) -> None:
    """What vanished while layers were in quarantine may have come to refer to them."""
    world.apply(world.plan())
    lose(world, database.commits, "files")
    world.clock.advance(LATER)
    aside = world.aside()
    with pytest.raises(IncompleteRead):
        world.purge()
    assert world.aside() == aside


def test_it_may_be_in_a_quarantine(world: World, past: Past) -> None:
    run = world.apply(world.plan()).run
    world.write.label("graph", world.write.layer(names=[past.old[0]]))
    with pytest.raises(IncompleteRead) as error:
        world.plan()
    assert f"reclaim undo {run}" in (error.value.hint or "")
    world.undo(run)
    world.plan()


def test_other_forty_digits_are_no_layer(
    world: World, past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hashes in data, and an id in the middle of a text, are nothing that could be missing."""
    write = world.write
    graph = write.layer(values=[f"see {'a' * 40} for more", "b" * 39])
    write.label("graph", graph)
    monkeypatch.setitem(writing._FIXED, 2, writing._NODES)
    data = write.layer(values=["c" * 40, f'"{"d" * 40}"'])
    write.label("data", write.layer(data, values=["e" * 40]))
    world.age()
    assert world.plan().document.dead == len(past.dead)
    monkeypatch.undo()


@pytest.mark.parametrize("text", ["{}", '"{}"'])
@pytest.mark.parametrize("archives", [True, False])
def test_the_predicate_counts_for_what_stands_on_it(
    world: World, past: Past, monkeypatch: pytest.MonkeyPatch, archives: bool, text: str
) -> None:
    """Only the layer that brings a predicate has it; those above use it as well."""
    write = world.write
    write.archives = archives
    base = write.layer(names=[past.main[0]])
    monkeypatch.setitem(writing._FIXED, 2, writing._NODES)
    above = write.layer(write.layer(base), values=[text.format("c" * 40)])
    write.label("graph", above)
    with pytest.raises(IncompleteRead, match="c" * 40):
        world.plan()


def test_what_is_only_young_may_name_what_is_gone(world: World, past: Past) -> None:
    """As a layer of a transaction that failed: no label ever led to it."""
    world.apply(world.plan(), removal=DELETE)
    young = world.write.layer(names=[past.old[0]])
    world.plan()
    assert young in world.there()


@pytest.mark.parametrize("name", ["archive", "directory"])
def test_real_stores_miss_nothing(world: World, tmp_path: Path, name: str) -> None:
    sample = unpack(name, tmp_path)
    shutil.rmtree(world.folder)
    sample.folder.rename(world.folder)
    age_all(world.folder, world.clock)
    world.age()
    world.apply(world.plan(), removal=DELETE)
    # And without the shards of some live layers that are neither labelled nor parents.
    for layer in sorted(sample.live):
        shard = world.folder / layer[:3]
        aside = tmp_path / "aside"
        os.rename(shard, aside)  # noqa: PTH104
        with pytest.raises((IncompleteRead, Corrupt)):
            world.plan(allowed_fraction=1.0)
        aside.rename(shard)
    world.plan()
