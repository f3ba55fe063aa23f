"""A shelf under the contract of stores: what goes around the adapter goes through its library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from reclaim.model import SnapshotId
from reclaim.stores import abilities
from reclaim.stores.base import Store
from reclaim.stores.format import ReadsContainers
from tests.stores.shelf.library import ATTRIBUTES, CHUNKS, SNAPSHOTS, ShelfError
from tests.stores.shelf.world import World


class ShelfSubject:
    abilities: frozenset[type] = frozenset(
        {
            ReadsContainers,
            abilities.CompactsMetadata,
            abilities.Examines,
            abilities.ExpiresItself,
            abilities.ExpiresUnderLock,
            abilities.HoldsLeases,
            abilities.ListsLeases,
            abilities.Quarantines,
            abilities.SetsAside,
            abilities.TakesOver,
        }
    )

    def __init__(self, world: World) -> None:
        self._world = world
        self._made = 0
        self.store: Store = world.store()

    def another(self) -> Store:
        return self._world.store()

    def objects(self) -> set[str]:
        return self._world.there()

    def live(self) -> SnapshotId:
        self._made += 1
        return SnapshotId(self._world.commit("main", "a/1", f"b/{self._made}"))

    def dead(self) -> SnapshotId:
        self._made += 1
        shelf, branch = self._world.shelf, f"old-{self._made}"
        shelf.branch(branch, shelf.read().branches["main"])
        made = self._world.commit(branch, f"c/{self._made}")
        shelf.delete_branch(branch)
        return SnapshotId(made)

    def needs(self, snapshot: SnapshotId) -> Mapping[str, str]:
        return self._world.needs(snapshot)

    def swept(self, snapshot: SnapshotId) -> None:
        for folder in (SNAPSHOTS, ATTRIBUTES):
            self._world.storage.delete(self._world.shelf.address(folder, snapshot))

    def usable(self, snapshot: SnapshotId) -> bool:
        shelf = self._world.shelf
        try:
            shelf.tag("used", snapshot)
        except ShelfError:
            return False
        shelf.delete_tag("used")
        return True

    def staged(self) -> None:
        """Nothing is staged: a commit is written whole."""

    def uploading(self) -> None:
        """What a commit in the making wrote is protected by the margin alone."""

    def unfinished(self) -> str:
        """A chunk of a commit that did not come to its end."""
        address = self._world.shelf.address(CHUNKS, "0f" * 10)
        self._world.storage.put(address, b"left")
        return address

    def lose(self, snapshot: SnapshotId) -> None:
        self._world.storage.delete(self._world.shelf.address(SNAPSHOTS, snapshot))

    def age(self) -> None:
        self._world.age()

    def hold(self, snapshot: SnapshotId) -> str:
        store = self._world.store()
        return store.take_lease(snapshot, holder="contract", length=timedelta(hours=2)).id

    def line(self) -> Sequence[SnapshotId]:
        paths = ("a/1", "b/1", "c/1")
        return [SnapshotId(self._world.commit("main", path, days=10)) for path in paths]

    def tag(self, name: str, snapshot: SnapshotId) -> None:
        self._world.shelf.tag(name, snapshot)

    def reached(self) -> set[SnapshotId]:
        return set(map(SnapshotId, self._world.live()))
