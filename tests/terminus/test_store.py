"""A TerminusDB store keeps the contract of stores, in each format."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from reclaim.errors import Gone
from reclaim.model import SnapshotId
from reclaim.stores.base import Store
from reclaim.testing.stores import (
    AbilityContract,
    InterruptedStorage,
    RunContract,
    StoreContract,
)
from tests.terminus.world import World

pytestmark = pytest.mark.fast


class TerminusSubject:
    def __init__(self, world: World, *, archives: bool) -> None:
        self._world = world
        self._archives = archives
        self._made = 0
        self._below: dict[SnapshotId, SnapshotId] = {}
        self._label(self._layer())
        self.store: Store = world.store()

    def _layer(self) -> SnapshotId:
        write = self._world.write
        write.archives = self._archives
        self._made += 1
        base = write.layer(values=[f"base {self._made}"])
        made = write.layer(base, values=[f"{self._made}"])
        self._below[made] = base
        self._world.clock.advance(seconds=1)
        return made

    def _label(self, layer: SnapshotId) -> None:
        self._world.write.label(f"label {self._made}", layer)

    def another(self) -> Store:
        return self._world.store()

    def objects(self) -> set[str]:
        return {f"store/{path.relative_to(self._world.folder)}" for path in self._files()}

    def _files(self) -> set[Path]:
        return set(self._world.folder.glob("[0-9a-f]" * 3 + "/*"))

    def live(self) -> SnapshotId:
        made = self._layer()
        self._world.write.rollup(made, values=["rolled up"])
        self._label(made)
        self._world.clock.advance(seconds=1)
        return made

    def live_otherwise(self) -> Mapping[str, SnapshotId]:
        """None: labels are the one way."""
        return {}

    def dead(self) -> SnapshotId:
        return self._layer()

    def dead_pair(self) -> tuple[SnapshotId, SnapshotId]:
        first = self._layer()
        self._world.clock.advance(days=10)
        second = self._world.write.layer(first, values=[f"above {self._made}"])
        self._below[second] = first
        self._world.clock.advance(seconds=1)
        return first, second

    def needs(self, snapshot: SnapshotId) -> Mapping[str, str]:
        write = self._world.write
        found = {f"store/{write.path(snapshot)}": "layer"}
        if self._archives:
            found[f"store/{write.rollup_path(snapshot)}"] = "rollup"
        return found

    def swept(self, snapshot: SnapshotId) -> None:
        self.store.storage.delete(f"store/{self._world.write.path(snapshot)}")

    def usable(self, snapshot: SnapshotId) -> bool:
        store = self._world.store()
        try:
            lease = store.take_lease(snapshot, holder="contract")
        except Gone:
            return False
        store.release_lease(lease.id)
        return True

    def lose(self, snapshot: SnapshotId) -> None:
        path = self._world.folder / self._world.write.path(snapshot)
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    def shorten(self) -> bool:
        """Layers are the files that were listed: there is no other number of them."""
        return False

    def age(self) -> None:
        self._world.age()

    def wait(self, time: timedelta) -> None:
        self._world.clock.advance(seconds=time.total_seconds())

    def hold(self, snapshot: SnapshotId, length: timedelta) -> str:
        return self._world.store().take_lease(snapshot, holder="contract", length=length).id

    def interrupted(self, call: Callable[[], None]) -> Store:
        return self._world.store(lambda storage: InterruptedStorage(storage, call))

    def name(self, snapshot: SnapshotId) -> None:
        self._world.write.label("again", snapshot)

    def below(self, snapshot: SnapshotId) -> Collection[SnapshotId]:
        return {self._below[snapshot]}

    def staged(self) -> None:
        return None

    def uploading(self) -> None:
        return None


class TestTerminusStore(StoreContract):
    @pytest.fixture(params=[True, False], ids=["archives", "directories"])
    def subject(self, request: pytest.FixtureRequest, world: World) -> TerminusSubject:
        return TerminusSubject(world, archives=request.param)


class TestTerminusAbilities(AbilityContract, RunContract):
    @pytest.fixture
    def subject(self, world: World) -> TerminusSubject:
        return TerminusSubject(world, archives=True)
