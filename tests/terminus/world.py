"""A store that is collected: what is in it, what must stay, and a past that is dead.

What must stay is worked out here from the files, layer by layer, and shares nothing with the
collector but the decoding of single layers, which has tests of its own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reclaim.engine.local.engine import LocalEngine
from reclaim.engine.tasks.parts import read_part
from reclaim.model import SnapshotId
from reclaim.run.apply.applied import Applied
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.plan.planning import PlanOptions, WrittenPlan, make_plan
from reclaim.run.purge.purge import Purged, purge
from reclaim.run.sweep.removal import MoveToQuarantine, Removal
from reclaim.run.undo.undo_run import Undone, undo_run
from reclaim.storage import ObjectStorage, Storage
from reclaim.stores.base import Store
from reclaim.stores.observation import Margins
from reclaim.stores.terminus.layer import Layer
from reclaim.stores.terminus.store import TerminusStore
from reclaim.testing import ClockedStorage, FakeClock
from reclaim.urls import normalize
from tests.support import stepping
from tests.support.terminus import StoreWriter
from tests.terminus.samples import Contents, read_store

Step = Callable[[str], None]
Wrap = Callable[[Storage], Storage]
MOVE = MoveToQuarantine()


def nothing(_step: str) -> None:
    pass


@dataclass
class World:
    """One store, and any number of processes that work on it."""

    folder: Path
    clock: FakeClock
    margins: Margins = field(default_factory=Margins)
    _writer: StoreWriter | None = None

    @property
    def storage(self) -> Storage:
        """The storage itself, with the clock of the test."""
        return ClockedStorage(ObjectStorage.open(self.folder.parent.as_uri()), self.clock)

    @property
    def write(self) -> StoreWriter:
        """Writes as a server does, at the time that it is now."""
        if self._writer is None:
            self._writer = StoreWriter(self.folder)
        self._writer.written_at = self.clock.now().timestamp()
        return self._writer

    def store(self, wrap: Wrap = lambda storage: storage) -> TerminusStore:
        return TerminusStore(self.folder, clock=self.clock, storage=wrap(self.storage))

    def age(self) -> None:
        """Let so much time pass that no margin protects anything."""
        self.clock.advance(days=2)

    def engine(self, step: Step = nothing, storage: Storage | None = None) -> LocalEngine:
        found = storage or self.storage
        return LocalEngine(lambda _url: found, clock=self.clock, step=step)

    def plan(
        self,
        *,
        step: Step = nothing,
        store: Store | None = None,
        storage: Storage | None = None,
        **options: Any,
    ) -> WrittenPlan:
        found = storage or self.storage
        asked = PlanOptions(**{"margins": self.margins, **options})
        return make_plan(
            store or self.store(), self.engine(step, found), asked, opener=self.opener(found)
        )

    def apply(
        self,
        plan: WrittenPlan,
        *,
        step: Step = nothing,
        store: Store | None = None,
        storage: Storage | None = None,
        removal: Removal = MOVE,
        exclude: Sequence[str] = (),
    ) -> Applied:
        found = storage or self.storage
        return apply_plan(
            store or self.store(),
            self.engine(step, found),
            plan.place,
            removal=removal,
            exclude=exclude,
            opener=self.opener(found),
        )

    def undo(self, run: str, *, step: Step = nothing, store: Store | None = None) -> Undone:
        found = self.storage
        return undo_run(store or self.store(), self.engine(step), run, opener=self.opener(found))

    def purge(
        self,
        older_than: timedelta | None = None,
        *,
        step: Step = nothing,
        store: Store | None = None,
    ) -> Purged | None:
        found = self.storage
        return purge(
            store or self.store(),
            self.engine(step),
            older_than=older_than,
            opener=self.opener(found),
        )

    def opener(self, found: Storage) -> Callable[[str], Storage]:
        """Opens other places with the same clock: a run's own folder is one."""

        def opened(url: str) -> Storage:
            if url == found.url:
                return found
            return ClockedStorage(ObjectStorage.open(normalize(url)), self.clock)

        return opened

    def candidates(self, plan: WrittenPlan) -> set[str]:
        """The addresses that a plan lists."""
        rows = [read_part(self.storage, file.part) for file in plan.document.files]
        return {address for table in rows for address in table["address"].to_pylist()}

    def contents(self) -> Contents:
        return read_store(self.folder)

    def there(self) -> set[SnapshotId]:
        """The layers that are there, by the names of their files."""
        found = self.folder.glob("[0-9a-f]" * 3 + "/*")
        return {SnapshotId(path.name.partition(".")[0]) for path in found}

    def aside(self) -> set[SnapshotId]:
        """The layers in quarantine."""
        found = self.folder.glob(".reclaim/quarantine/*/???/*")
        return {SnapshotId(path.name.partition(".")[0]) for path in found}

    def held(self) -> set[SnapshotId]:
        return {lease.snapshot for lease, valid in self.store().leases() if valid}

    def live(self) -> set[SnapshotId]:
        """What labels and valid leases reach; everything that they need must be there."""
        contents = self.contents()
        return needed(contents.layers, {*contents.roots, *self.held()})

    def check(self) -> None:
        """What is left opens, every live layer is whole, and no layer lacks what it needs."""
        self.live()
        contents = self.contents()
        for layer in contents.layers.values():
            for target in (layer.parent, layer.rollup):
                assert target is None or target in contents.ids, f"{layer.id} lacks {target}"

    def quiet(self) -> None:
        """A run with nobody about leaves what is needed; a second one finds nothing."""
        self.age()
        store = self.store()
        self.apply(self.plan(allowed_fraction=1.0, store=store), store=store)
        self.check()
        assert self.there() == self.live()
        again = self.plan(store=store)
        assert again.document.candidates == 0
        assert not list(self.folder.glob(".reclaim/condemned/*provisional*"))


def make_world(folder: Path, clock: FakeClock, patch: pytest.MonkeyPatch) -> World:
    """A store without layers. What is touched gets the time of the test's clock."""
    real = os.utime

    def touch(path: Any, times: Any = None, **how: Any) -> None:
        now = clock.now().timestamp()
        real(path, times if times or "ns" in how else (now, now), **how)

    patch.setattr(os, "utime", touch)
    store = folder / "store"
    store.mkdir()
    return World(store, clock)


@contextmanager
def taking_what_others_need() -> Iterator[None]:
    """Runs take what layers in quarantine need, as those of an older version did."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TerminusStore, "keep_whole", lambda _store, seen, *_, **__: seen)
        yield


def needed(layers: dict[SnapshotId, Layer], roots: Collection[SnapshotId]) -> set[SnapshotId]:
    """The oracle: what roots reach by parents, rollups and ids in data."""
    found: set[SnapshotId] = set()
    waiting = list(roots)
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        assert one in layers, f"{one} is live, and not there or not whole"
        found.add(one)
        layer = layers[one]
        waiting += [target for target in (layer.parent, layer.rollup) if target]
        waiting += [name for name in layer.names if name in layers]
    return found


@dataclass(frozen=True)
class Past:
    """A store in both formats, with dead layers in it.

    ``main`` is a line of three, its tip rolled up. ``old`` is a line of three that lost its label,
    with a rollup of the second; ``torn`` was cut off while it was written.
    """

    main: tuple[SnapshotId, ...]
    rollup: SnapshotId
    old: tuple[SnapshotId, ...]
    old_rollup: SnapshotId
    torn: SnapshotId

    @property
    def live(self) -> set[SnapshotId]:
        return {*self.main, self.rollup}

    @property
    def dead(self) -> set[SnapshotId]:
        return {*self.old, self.old_rollup, self.torn}


def bury(world: World) -> Past:
    """Make a past, and let it grow old."""
    write = world.write

    def line(name: str, *formats: bool) -> tuple[SnapshotId, ...]:
        found: list[SnapshotId] = []
        for number, archives in enumerate(formats):
            write.archives = archives
            under = found[-1] if found else None
            found.append(write.layer(under, values=[f"{name} {number}"]))
        return tuple(found)

    main = line("main", True, True, True)
    rollup = write.rollup(main[-1], values=["main"])
    write.label("main", main[-1])
    old = line("old", True, True, False)
    old_rollup = write.rollup(old[1], values=["old"])
    write.archives = True
    torn = write.layer(old[0], values=["torn"])
    cut(world, torn)
    world.age()
    return Past(main, rollup, old, old_rollup, torn)


def cut(world: World, layer: SnapshotId) -> None:
    """Leave a layer as one that was cut off while it was written."""
    path = world.folder / world.write.path(layer)
    told = path.stat().st_mtime
    if path.is_dir():
        (path / "value_dictionary_blocks.tfc").unlink()
    else:
        path.write_bytes(path.read_bytes()[:-7])
    os.utime(path, (told, told))


def age_all(folder: Path, clock: FakeClock) -> None:
    """Let every file look as if it were written now, by the clock."""
    now = clock.now().timestamp()
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (now, now))


class Frozen:
    """A whole store as it was at one time, to go back to as often as one likes."""

    def __init__(self, world: World, name: str = "frozen") -> None:
        self._world = world
        self._now = world.clock.now()
        self._copy = world.folder.with_name(name)
        shutil.copytree(world.folder, self._copy)

    def thaw(self) -> None:
        shutil.rmtree(self._world.folder)
        shutil.copytree(self._copy, self._world.folder)
        self._world.clock.set(self._now)
        self._world.write.folders.clear()


STEPS = (
    *("check", "begin", "start", "observe", "condemn", "release", "promote", "collect"),
    *("set_aside", "in_order", "taken", "restore", "needed", "forget", "finish"),
)


def stepped(store: TerminusStore, step: Step) -> TerminusStore:
    """A store of which every call is a step: ``step`` is told before and after each."""
    return stepping.stepped(store, step, STEPS)


class At:
    """Does something once, when a step is reached whose name begins so, for the nth time."""

    def __init__(self, name: str, work: Callable[[], object], *, nth: int = 1) -> None:
        self._name = name
        self._work = work
        self._left = nth
        self.done = False

    def __call__(self, step: str) -> None:
        if self.done or not step.startswith(self._name):
            return
        self._left -= 1
        if self._left == 0:
            self.done = True
            self._work()
