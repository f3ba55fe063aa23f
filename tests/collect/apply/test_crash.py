"""Runs that die at any of their steps: what is left is whole, and another one finishes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from reclaim.engine.tasks import deleting
from reclaim.policy import from_options
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine, Removal
from reclaim.run_record import Phase
from tests.collect.helpers.dying import End, Frozen, dies
from tests.collect.helpers.world import Files, World, bury, whole
from tests.support import dying
from tests.support.dying import Work, again

pytestmark = pytest.mark.repeats(first=1)

MOVE = MoveToQuarantine()
STRIDE = {"embedded": 1, "server": 13}
"""A step on servers takes much longer."""
APPLY_FIRST = {DELETE: 1, MOVE: 2}
"""Both take the same steps up to the sweep: each dies at every second one, the other between."""


@dataclass(frozen=True)
class Scene:
    """A plan with everything that can be in one, and what has happened since it was made."""

    frozen: Frozen
    plan: WrittenPlan
    files: dict[str, Files]
    """What each commit shows that can be read before the plan is applied."""

    @property
    def run(self) -> str:
        return self.plan.document.run


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleting, "PAGE", 2)


def prepare(world: World) -> tuple[WrittenPlan, dict[str, Files]]:
    """Commits that go by a policy and because nothing reaches them, an upload, a tag that goes."""
    past = bury(world)
    with world.opened() as catalog:
        repo = catalog.repository(world.repo.name)
        repo.create_tag("tag", past.first)
        main = repo.branch("main")
        main.put("a", b"newer")
        later = main.commit("later").id
        main.put("lost", b"lost")
        main.reset()
        for name in ("work", "clean"):
            repo.delete_branch(name)
        files = {**past.files, later: whole(repo, later)}
    world.age()
    plan = world.plan(from_options(older_than="3d"), delete_expired_tags=True, allowed_fraction=1.0)
    assert plan.document.deleted_refs
    # This one comes back, and the plan does not know.
    world.other().create_branch("back", past.keep)
    return plan, files


@pytest.fixture
def scene(world: World) -> Scene:
    plan, files = prepare(world)
    return Scene(Frozen(world), plan, files)


def each_death(
    frozen: Frozen, world: World, work: Work, *, stride: int = 1, first: int = 1
) -> Iterator[int]:
    die = partial(dies, world, work)
    stride = max(stride, STRIDE[world.backend.name])
    return dying.each_death(frozen, die, stride=stride, first=first)


@pytest.mark.parametrize("removal", [DELETE, MOVE], ids=["deletes", "sets aside"])
def test_an_apply_that_dies_at_any_step(world: World, scene: Scene, removal: Removal) -> None:
    def work(world: World, **how: object) -> object:
        return world.apply(scene.plan, removal=removal, **how)  # type: ignore[arg-type]

    scene.frozen.thaw()
    before = world.there()
    listed = set(world.candidates(scene.plan))
    work(world)
    world.check_swept(scene.plan, before)
    end = End.of(world, scene.run)
    for fatal in each_death(scene.frozen, world, work, stride=2, first=APPLY_FIRST[removal]):
        world.check()
        gone = before - world.there()
        assert gone <= listed
        assert removal is DELETE or gone <= world.aside(), fatal
        again(world, work)
        assert End.of(world, scene.run) == end, fatal
        assert whole(world.repo, "back") == scene.files[world.repo.commit("back").id]


@pytest.fixture
def applied(world: World) -> Scene:
    """The same, and what went is in quarantine."""
    plan, files = prepare(world)
    world.apply(plan, removal=MOVE)
    return Scene(Frozen(world), plan, files)


def undone(world: World, run: str) -> bool:
    return any(one.id == run and one.phase == Phase.UNDONE for one in world.repo.runs())


def test_an_undo_that_dies_at_any_step(world: World, applied: Scene) -> None:
    def work(world: World, **how: object) -> object:
        return world.undo(applied.run, **how)  # type: ignore[arg-type]

    applied.frozen.thaw()
    gone = world.aside()
    assert gone
    before = world.there()
    work(world)
    end = End.of(world, applied.run)
    assert end.there == before | gone
    for fatal in each_death(applied.frozen, world, work):
        world.check()
        assert world.there() | world.aside() == end.there, fatal
        if not undone(world, applied.run):
            again(world, work)
        assert End.of(world, applied.run) == end, fatal
        for commit, files in applied.files.items():
            assert whole(world.repo, commit) == files


def test_a_purge_that_dies_at_any_step(world: World, applied: Scene) -> None:
    def work(world: World, **how: object) -> object:
        return world.purge(MOVE.keep, **how)  # type: ignore[arg-type]

    applied.frozen.thaw()
    before = world.there()
    world.clock.advance(MOVE.keep)
    work(world)
    end = End.of(world, applied.run)
    assert end.there == before
    assert not end.aside

    def late(world: World, **how: object) -> object:
        if how:
            world.clock.advance(MOVE.keep)
        return work(world, **how)

    for fatal in each_death(applied.frozen, world, late):
        world.check()
        assert world.there() == before
        again(world, late)
        assert End.of(world, applied.run) == end, fatal
