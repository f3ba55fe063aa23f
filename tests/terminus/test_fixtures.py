"""The two real stores, and one with both formats in a folder, through plan, apply and undo."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from reclaim.run.sweep.removal import DELETE
from reclaim.stores.terminus import graph
from reclaim.stores.terminus.garbage import Garbage
from reclaim.stores.terminus.graph import Edge
from reclaim.testing import FakeClock
from tests.terminus.samples import FORMATS, Sample, unpack
from tests.terminus.world import World, age_all

BOTH = "both"


@pytest.fixture(params=[*FORMATS, BOTH])
def real(request: pytest.FixtureRequest, world: World, tmp_path: Path) -> Sample:
    """A real store in the world's folder, all of it old."""
    samples = [unpack(name, tmp_path) for name in FORMATS if request.param in (name, BOTH)]
    world.folder.rmdir()
    for sample in samples:
        merge(sample.folder, world.folder)
    age_all(world.folder, world.clock)
    world.age()
    labels = {name: told for sample in samples for name, told in sample.labels.items()}
    live = frozenset[str]().union(*(sample.live for sample in samples))
    dead = frozenset[str]().union(*(sample.dead for sample in samples))
    return Sample(world.folder, live, dead, labels)


def merge(source: Path, target: Path) -> None:
    """Put a store beside another; of labels with one name the second is called otherwise."""
    target.mkdir(exist_ok=True)
    for path in sorted(source.iterdir()):
        goal = target / path.name
        if path.suffix == ".label" and goal.exists():
            goal = target / f"upgraded%7c{path.name}"
        if path.is_dir():
            shutil.copytree(path, goal, dirs_exist_ok=True)
        else:
            shutil.copy2(path, goal)


def test_exactly_the_dead_layers_go(world: World, real: Sample) -> None:
    files = {path: path.read_bytes() for path in world.folder.rglob("*") if path.is_file()}
    plan = world.plan()
    assert plan.document.dead == len(real.dead)
    done = world.apply(plan)
    assert world.there() == real.live
    assert world.aside() == real.dead
    world.check()
    assert world.undo(done.run).left == ()
    for path, data in files.items():
        assert path.read_bytes() == data


def test_they_can_be_deleted_at_once_or_later(world: World, real: Sample) -> None:
    world.apply(world.plan(), removal=DELETE)
    assert world.there() == real.live
    assert world.aside() == set()
    world.quiet()
    assert world.there() == real.live


def test_what_they_were(world: World, real: Sample) -> None:
    reasons: dict[str, int] = {}
    for group in world.plan().document.going:
        reasons[group.reason] = reasons.get(group.reason, 0) + group.objects
    stores = len(real.dead) // 14
    assert reasons == {
        Garbage.SQUASHED_GRAPH: 12 * stores,
        Garbage.SUPERSEDED_ROLLUP: stores,
        Garbage.FAILED_TRANSACTION: stores,
    }


@pytest.mark.parametrize("edge", [Edge.ROLLUP, Edge.DATA])
def test_without_an_edge_the_test_fails(
    world: World, real: Sample, edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: a collector that does not follow one kind of edge."""
    whole = partial(graph.reach, edges=graph.ALL_EDGES - {edge})
    monkeypatch.setattr(graph, "reach", whole)
    with pytest.raises(AssertionError):
        test_exactly_the_dead_layers_go(world, real)


def test_a_deleted_database(world: World, real: Sample, clock: FakeClock) -> None:
    """Only the label goes; then all that it alone kept."""
    label = next(world.folder.glob("*testdb.label"))
    before = world.live()
    label.unlink()
    kept = world.live()
    assert kept < before
    plan = world.plan()
    assert "deleted database" in {group.reason for group in plan.document.going}
    run = world.apply(plan).run
    assert world.there() == kept
    # A clone that takes the label up again finds it: this is why nothing is deleted at once.
    world.undo(run)
    assert before <= world.there()
