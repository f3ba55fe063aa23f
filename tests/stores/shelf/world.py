"""A shelf that is collected, with a clock that a test moves; and what must be there, by its own
library alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from reclaim.engine.local.engine import LocalEngine
from reclaim.policy import Duration, Policy, Rules
from reclaim.run.apply.applied import Applied
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.plan.planning import PlanOptions, WrittenPlan, make_plan
from reclaim.run.purge.purge import Purged, purge
from reclaim.run.sweep.removal import DELETE, Removal
from reclaim.run.undo.undo_run import Undone, undo_run
from reclaim.storage import ObjectStorage, Storage
from reclaim.testing import ClockedStorage, FakeClock
from reclaim.urls import normalize
from tests.stores.shelf.library import ATTRIBUTES, CHUNKS, MANIFESTS, SNAPSHOTS, Shelf
from tests.stores.shelf.store import ShelfStore

NAME = "a shelf"
FOLDERS = (CHUNKS, MANIFESTS, SNAPSHOTS, ATTRIBUTES)


def older_than(age: str) -> Policy:
    return Policy(Rules(older_than=Duration.parse(age)))


@dataclass
class World:
    """One shelf, and any number of processes that work on it."""

    root: str
    clock: FakeClock
    storage: Storage = field(init=False)
    shelf: Shelf = field(init=False)

    def __post_init__(self) -> None:
        self.storage = ClockedStorage(ObjectStorage.open(self.root), self.clock)
        self.shelf = Shelf(self.storage, f"{NAME}/", self.clock, Random(7))

    @classmethod
    def make(cls, folder: Path | str, clock: FakeClock) -> World:
        world = cls(normalize(str(folder)), clock)
        world.shelf.create()
        world.clock.advance(hours=1)
        return world

    def commit(self, branch: str, *paths: str, days: float = 0) -> str:
        """A snapshot with some files; the clock goes on by some days before."""
        self.clock.advance(days=days)
        stamp = self.clock.now().isoformat()
        made = self.shelf.commit(branch, {path: f"{path} {stamp}".encode() for path in paths})
        self.clock.advance(minutes=1)
        return made

    def merge(self, branch: str, other: str) -> str:
        """A snapshot on a branch, with the tip of another one as its second parent."""
        merged = self.shelf.merge(branch, other)
        self.clock.advance(minutes=1)
        return merged

    def store(self, storage: Storage | None = None) -> ShelfStore:
        location = f"{self.root}/{NAME}"
        return ShelfStore(location, clock=self.clock, storage=storage or self.storage)

    def engine(self, step: Callable[[str], None] = lambda _step: None) -> LocalEngine:
        return LocalEngine(self.opener, clock=self.clock, step=step)

    def opener(self, url: str) -> Storage:
        if url == self.storage.url:
            return self.storage
        return ClockedStorage(ObjectStorage.open(normalize(url)), self.clock)

    def plan(self, policy: Policy | None = None, **options: Any) -> WrittenPlan:
        asked = PlanOptions(policy=policy or Policy(), **options)
        return make_plan(self.store(), self.engine(), asked, opener=self.opener)

    def apply(
        self, plan: WrittenPlan, removal: Removal = DELETE, store: ShelfStore | None = None
    ) -> Applied:
        return apply_plan(
            store or self.store(), self.engine(), plan.place, removal=removal, opener=self.opener
        )

    def undo(self, run: str) -> Undone:
        return undo_run(self.store(), self.engine(), run, opener=self.opener)

    def purge(self, older_than: timedelta | None = None) -> Purged | None:
        return purge(self.store(), self.engine(), older_than=older_than, opener=self.opener)

    def age(self) -> datetime:
        """Let so much time pass that no margin protects anything."""
        self.clock.advance(days=2)
        return self.clock.now()

    # Around the adapter

    def there(self) -> set[str]:
        """The objects of the shelf, as the storage lists them."""
        return {
            stored.address for folder in FOLDERS for stored in self.storage.list(f"{NAME}/{folder}")
        }

    def needs(self, snapshot: str) -> dict[str, str]:
        """Every address that a snapshot needs, with its kind, by the library."""
        shelf = self.shelf
        found = {
            shelf.address(SNAPSHOTS, snapshot): "snapshot",
            shelf.address(ATTRIBUTES, snapshot): "attributes",
        }
        for manifest in shelf.manifests(snapshot).values():
            found[shelf.address(MANIFESTS, manifest)] = "manifest"
            chunks = shelf.chunks(manifest).values()
            found |= {shelf.address(CHUNKS, chunk): "data" for chunk in chunks}
        return found

    def live(self) -> set[str]:
        """The snapshots that refs reach, by the library."""
        index = self.shelf.read()
        waiting, reached = [*index.tips()], set()
        while waiting:
            one = waiting.pop()
            if one not in reached:
                reached.add(one)
                waiting += index.snapshots[one].parents
        return reached

    def check_whole(self) -> None:
        """Whatever a ref reaches can be read."""
        for snapshot in self.live():
            self.shelf.files(snapshot)
