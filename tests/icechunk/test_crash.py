"""Runs that die at any of their steps: the library opens what is left, and another run ends it.

A step is every task of the plain engine, every single write to the storage and every time that
``repo`` is replaced. The lock of a process that died stays taken.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reclaim.engine.local.engine import LocalEngine
from reclaim.engine.tasks import deleting
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.plan.planning import PlanOptions, WrittenPlan, make_plan
from reclaim.run.purge.purge import purge
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine, Removal
from reclaim.run.undo.undo_run import undo_run
from reclaim.run_record import Phase
from reclaim.storage import ObjectStorage, Storage
from reclaim.stores.icechunk.repo_document import RepoDocument
from reclaim.stores.icechunk.store import IcechunkStore
from reclaim.stores.observation import Margins
from reclaim.stores.sidecar.lock import SidecarLock
from reclaim.testing import ClockedStorage, FakeClock
from reclaim.urls import normalize
from tests.icechunk.repositories import FOLDERS, NEWEST_SPEC, WrittenRepository
from tests.icechunk.samples import extract
from tests.icechunk.test_differential import contents
from tests.icechunk.world import DAY, bury
from tests.support.dying import (
    Deaths,
    Died,
    Work,
    again,
    each_death,
    step_before,
    step_before_writes,
)

pytestmark = pytest.mark.repeats(first=1)

MOVE = MoveToQuarantine(timedelta(days=7))
STRIDE = 37
"""Steps from one death to the next; ``make soak`` dies at each of them, and processes that are
killed (``test_killed.py``) die at others."""
Step = Callable[..., None]


def nothing(*_: Any) -> None:
    """No step."""


class World:
    """A repository with dead snapshots, the time in it, and what its readers see."""

    def __init__(self, folder: Path, spec: int) -> None:
        self.spec = spec
        # Behind the library's: it refuses to write after an update of the future.
        self.clock = FakeClock(datetime.now(UTC) - timedelta(days=2_000))
        self.can_write = spec <= NEWEST_SPEC
        if self.can_write:
            self.written = WrittenRepository.create(folder / "buried", spec)
            bury(self.written)
        else:
            self.written = extract("buried", folder)
        self._storage = ClockedStorage(ObjectStorage.open(normalize(str(folder))), self.clock)
        old = self.clock.now() - 3 * DAY
        self._storage.date(
            {f"buried/{kind}/{name}": old for kind in FOLDERS for name in self.written.names(kind)}
        )

    def store(self) -> IcechunkStore:
        return IcechunkStore(str(self.written.folder), clock=self.clock, storage=self._storage)

    def _engine(self, step: Step) -> LocalEngine:
        return LocalEngine(self._open, clock=self.clock, step=step)

    def _open(self, _url: str) -> Storage:
        return self._storage

    def plan(self) -> WrittenPlan:
        options = PlanOptions(margins=Margins(objects=DAY), allowed_fraction=1)
        return make_plan(self.store(), self._engine(nothing), options, opener=self._open)

    def apply(self, plan: WrittenPlan, removal: Removal, step: Step = nothing) -> None:
        apply_plan(self.store(), self._engine(step), plan.place, removal=removal, opener=self._open)

    def undo(self, run: str, step: Step = nothing) -> None:
        undo_run(self.store(), self._engine(step), run, opener=self._open)

    def purge(self, step: Step = nothing) -> None:
        purge(self.store(), self._engine(step), older_than=MOVE.keep, opener=self._open)

    # What is there

    def there(self) -> dict[str, set[str]]:
        return self.written.objects()

    def aside(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {folder: set() for folder in FOLDERS}
        for file in self.written.folder.glob("_reclaim/quarantine/*/**/*"):
            if file.is_file():
                found[file.parent.name].add(file.name)
        return found

    def read(self) -> object:
        """What the library reads at every ref; without one that can, what it needs is there."""
        if self.can_write:
            return contents(self.written.reopened().repository)
        return self.entries() is not None

    def entries(self) -> object:
        """The history in ``repo``; in spec 1 it is in the files of snapshots themselves."""
        if self.spec == 1:
            return None
        document = RepoDocument.read((self.written.folder / "repo").read_bytes(), "repo")
        return document.entries(), document.tips()

    def state(self, run: str) -> str:
        found = self.store().find_run(run)
        assert found is not None
        return found.phase

    def end(self, run: str) -> tuple[object, ...]:
        """All that a run leaves that a later one, or a reader, could see."""
        lists = {
            path.name: path.read_text() for path in self.written.folder.glob("_reclaim/condemned/*")
        }
        return self.there(), self.aside(), self.entries(), self.read(), self.state(run), lists


class Frozen:
    """A repository as it was at one time, to go back to as often as one likes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._now = world.clock.now()
        self._copy = world.written.folder.with_name("frozen")
        shutil.copytree(world.written.folder, self._copy)

    def thaw(self) -> None:
        shutil.rmtree(self._world.written.folder)
        shutil.copytree(self._copy, self._world.written.folder)
        self._world.clock.set(self._now)


def dies(world: World, work: Work, fatal: int) -> bool:
    """Do something and die at a step, with the lock in hand; False when there are fewer steps."""
    deaths = Deaths(fatal)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SidecarLock, "give_back", lambda *_: None)
            step_before_writes(patch, deaths.write)
            step_before(patch, deaths.write, ObjectStorage, "swap", "delete_page", "flush")
            work(world, step=deaths)
    except Died:
        return True
    return False


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleting, "PAGE", 3)
    # A process dies here, and not the machine.
    monkeypatch.setattr(os, "fsync", nothing)


@pytest.fixture(params=[1, 2], ids=["spec 1", "spec 2"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return World(tmp_path, request.param)


@dataclass(frozen=True)
class Scene:
    """A plan, and what was there and could be read when it was made."""

    plan: WrittenPlan
    frozen: Frozen
    every: dict[str, set[str]]
    seen: object

    @property
    def run(self) -> str:
        return self.plan.document.run


def together(*several: dict[str, set[str]]) -> dict[str, set[str]]:
    return {folder: set().union(*(one[folder] for one in several)) for folder in FOLDERS}


@pytest.fixture
def scene(world: World) -> Scene:
    plan = world.plan()
    return Scene(plan, Frozen(world), world.there(), world.read())


@pytest.mark.parametrize("removal", [DELETE, MOVE], ids=["deletes", "sets aside"])
def test_an_apply_that_dies_at_any_step(world: World, scene: Scene, removal: Removal) -> None:
    def work(world: World, step: Step = nothing) -> None:
        world.apply(scene.plan, removal, step)

    scene.frozen.thaw()
    work(world)
    end = world.end(scene.run)
    assert world.there() != scene.every
    # Each of the four begins at another step.
    first = 6 * (removal is MOVE) + 11 * (world.spec - 1) + 1
    for fatal in each_death(scene.frozen, partial(dies, world, work), stride=STRIDE, first=first):
        assert world.read() == scene.seen, fatal
        if removal is MOVE:
            assert together(world.there(), world.aside()) == scene.every, fatal
        again(world, work)
        assert world.end(scene.run) == end, fatal


@pytest.fixture
def applied(world: World) -> Scene:
    """The same, and what went is in quarantine."""
    every, plan, entries = world.there(), world.plan(), world.entries()
    world.apply(plan, MOVE)
    assert world.entries() != entries or world.spec == 1
    return Scene(plan, Frozen(world), every, world.read())


def test_an_undo_that_dies_at_any_step(world: World, applied: Scene) -> None:
    def work(world: World, step: Step = nothing) -> None:
        world.undo(applied.run, step)

    work(world)
    end = world.end(applied.run)
    assert world.there() == applied.every
    for fatal in each_death(
        applied.frozen, partial(dies, world, work), stride=STRIDE, first=world.spec
    ):
        assert world.read() == applied.seen, fatal
        assert together(world.there(), world.aside()) == applied.every, fatal
        if world.state(applied.run) != Phase.UNDONE:
            again(world, work)
        assert world.end(applied.run) == end, fatal


def test_a_purge_that_dies_at_any_step(world: World, applied: Scene) -> None:
    def work(world: World, step: Step = nothing) -> None:
        if step is not nothing:
            world.clock.advance(MOVE.keep)
        world.purge(step)

    before = world.there()
    world.clock.advance(MOVE.keep)
    work(world)
    end = world.end(applied.run)
    assert not any(world.aside().values())
    for fatal in each_death(
        applied.frozen, partial(dies, world, work), stride=STRIDE, first=world.spec
    ):
        assert world.read() == applied.seen, fatal
        assert world.there() == before, fatal
        if world.state(applied.run) != Phase.PURGED:
            again(world, work)
        assert world.end(applied.run) == end, fatal
