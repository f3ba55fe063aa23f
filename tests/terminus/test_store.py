"""A TerminusDB store keeps the contract of stores, in each format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from reclaim.errors import Gone
from reclaim.model import SnapshotId
from reclaim.stores.base import Store
from reclaim.testing.stores import StoreContract
from tests.terminus.world import World


class TerminusSubject:
    def __init__(self, world: World, *, archives: bool) -> None:
        self._world = world
        self._archives = archives
        self._made = 0
        self._label(self._layer())
        self.store: Store = world.store()

    def _layer(self) -> SnapshotId:
        write = self._world.write
        write.archives = self._archives
        self._made += 1
        made = write.layer(write.layer(values=[f"base {self._made}"]), values=[f"{self._made}"])
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

    def dead(self) -> SnapshotId:
        return self._layer()

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

    def staged(self) -> None:
        return None

    def uploading(self) -> None:
        return None


class TestTerminusStore(StoreContract):
    @pytest.fixture(params=[True, False], ids=["archives", "directories"])
    def subject(self, request: pytest.FixtureRequest, world: World) -> TerminusSubject:
        return TerminusSubject(world, archives=request.param)
