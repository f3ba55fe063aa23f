"""The catalog keeps the contract of stores, on each back end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

import pytest

from reclaim.catalog import Branch, Repository
from reclaim.catalog.staging.partitions import partition_id
from reclaim.errors import Gone, TransactionFailed
from reclaim.ids import new_uid
from reclaim.model import Lease, SnapshotId
from reclaim.safety import SAFETY
from reclaim.stores.base import Store
from reclaim.testing.stores import (
    AbilityContract,
    InterruptedStorage,
    RunContract,
    StoreContract,
)
from tests.collect.helpers.world import NAME, World, addresses_of

pytestmark = pytest.mark.fast


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

    def interrupted(self, call: Callable[[], None]) -> Store:
        """A lease writes to the database alone: whoever takes one is interrupted there as well."""
        catalog = self._world.opened(lambda storage: InterruptedStorage(storage, call))
        store = self._world.store(catalog)
        take = store.take_lease

        def take_lease(snapshot: str, *, holder: str, length: timedelta) -> Lease:
            call()
            return take(snapshot, holder=holder, length=length)

        object.__setattr__(store, "take_lease", take_lease)
        return store

    def objects(self) -> set[str]:
        return self._world.there()

    def live(self) -> SnapshotId:
        self._made += 1
        main = self._repo.branch("main")
        for path in ("a", "b/x", f"c/{self._made}"):
            main.put(path, f"{path} {self._made}".encode())
        return SnapshotId(main.commit("live").id)

    def live_otherwise(self) -> Mapping[str, SnapshotId]:
        _, on_branch = self._on_branch("side")
        tagged_branch, tagged = self._on_branch("tagged")
        self._repo.create_tag("v1", tagged)
        merged_branch, merged = self._on_branch("merged")
        self._repo.branch("main").merge(merged_branch.name, message="merged")
        for branch in (tagged_branch, merged_branch):
            self._repo.delete_branch(branch.name)
        return {"branch": on_branch, "tag": tagged, "merge": merged}

    def dead(self) -> SnapshotId:
        branch, commit = self._on_branch("old")
        self._repo.delete_branch(branch.name)
        return commit

    def dead_pair(self) -> tuple[SnapshotId, SnapshotId]:
        branch, first = self._on_branch("old")
        self._world.clock.advance(days=10)
        branch.put("a", f"again {self._made}".encode())
        second = SnapshotId(branch.commit("second").id)
        self._repo.delete_branch(branch.name)
        return first, second

    def _on_branch(self, name: str) -> tuple[Branch, SnapshotId]:
        """A branch of its own, and a commit there."""
        self._made += 1
        branch = self._repo.create_branch(f"{name}-{self._made}", "main")
        branch.put(f"d/{self._made}", f"{name} {self._made}".encode())
        return branch, SnapshotId(branch.commit(name).id)

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

    def lose(self, snapshot: SnapshotId) -> None:
        self._world.storage.delete(self._repo.commit(snapshot).metarange)

    def shorten(self) -> bool:
        """Commits are rows, and read by one query: none is left out."""
        return False

    def age(self) -> None:
        self._world.age()

    def wait(self, time: timedelta) -> None:
        self._world.clock.advance(seconds=time.total_seconds())

    def hold(self, snapshot: SnapshotId, length: timedelta) -> str:
        return self._repo.take_lease(snapshot, holder="contract", length=length).id

    def line(self) -> Sequence[SnapshotId]:
        return [self._later() for _ in range(3)]

    def _later(self) -> SnapshotId:
        self._world.clock.advance(days=10)
        return self.live()

    def tag(self, name: str, snapshot: SnapshotId) -> None:
        self._repo.create_tag(name, snapshot)

    def reached(self) -> set[SnapshotId]:
        return set(map(SnapshotId, self._world.reached(self._world.other())))

    def referred(self) -> tuple[str, str]:
        self.live()
        main = self._repo.branch("main")
        return main.stat("a").address, main.stat("b/x").address

    def refer(self, address: str) -> None:
        main = self._world.opened().repository(NAME).branch("main")
        path = next(entry.path for entry in main.entries() if entry.address == address)
        self._made += 1
        main.copy(path, f"copied/{self._made}")

    def overdue(self) -> str:
        guard = self._guard(self._repo.branch("main").put("left", b"left").address)
        self._world.clock.advance(seconds=SAFETY.partition_overdue.total_seconds() + 1)
        return guard

    def stranger(self) -> str:
        guard = partition_id(0, new_uid())
        self._world.storage.put(f"repos/{self._repo.uid}/branches/main/{guard}/x", b"x")
        return guard

    def _guard(self, address: str) -> str:
        return address.split("/")[-2]

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


class TestCatalogAbilities(AbilityContract, RunContract):
    """On one back end: that both do the same is shown by what is below."""

    @pytest.fixture
    def subject(self, local: World) -> CatalogSubject:
        return CatalogSubject(local)
