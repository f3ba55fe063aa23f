"""The catalog keeps the contract of stores, on each back end."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest

from reclaim.catalog import Repository
from reclaim.errors import Gone, TransactionFailed
from reclaim.model import SnapshotId
from reclaim.stores.base import Store
from reclaim.testing.stores import StoreContract
from tests.collect.world import NAME, World, addresses_of


class CatalogSubject:
    def __init__(self, world: World) -> None:
        self._world = world
        self._made = 0
        self.store: Store = world.store()

    @property
    def _repo(self) -> Repository:
        return self._world.repo

    def another(self) -> Store:
        return self._world.store()

    def objects(self) -> set[str]:
        return self._world.there()

    def live(self) -> SnapshotId:
        self._made += 1
        main = self._repo.branch("main")
        for path in ("a", "b/x", f"c/{self._made}"):
            main.put(path, f"{path} {self._made}".encode())
        return SnapshotId(main.commit("live").id)

    def dead(self) -> SnapshotId:
        self._made += 1
        branch = self._repo.create_branch(f"old-{self._made}", "main")
        branch.put("a", f"dead {self._made}".encode())
        found = branch.commit("dead").id
        self._repo.delete_branch(branch.name)
        return SnapshotId(found)

    def needs(self, snapshot: SnapshotId) -> Mapping[str, str]:
        found = dict.fromkeys(addresses_of(self._repo, snapshot), "range")
        found[self._repo.commit(snapshot).metarange] = "metarange"
        return {
            address: "data" if "/branches/" in address else kind for address, kind in found.items()
        }

    def swept(self, snapshot: SnapshotId) -> None:
        pass

    def usable(self, snapshot: SnapshotId) -> bool:
        repo = self._world.opened().repository(NAME)
        try:
            repo.create_tag("used", snapshot)
        except (Gone, TransactionFailed):
            return False
        repo.delete_tag("used")
        return True

    def staged(self) -> str:
        return self._repo.branch("main").put("staged", b"staged").address

    def uploading(self) -> str:
        branch = self._repo.branch("main")
        pending = branch.get_physical_address("pending", valid=timedelta(hours=1))
        self._world.storage.put(pending.address, b"uploaded")
        with self._repo._workspace.partitions.use(self._repo.uid) as partition:
            address = partition.new_object("main")
            self._world.storage.put(address, b"in flight")
        return address


class TestCatalogStore(StoreContract):
    @pytest.fixture
    def subject(self, world: World) -> CatalogSubject:
        return CatalogSubject(world)
