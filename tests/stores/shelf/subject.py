"""A shelf under the contract of stores: what goes around the adapter goes through its library."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta

from reclaim.model import SnapshotId
from reclaim.stores.base import Store
from reclaim.testing.stores import InterruptedStorage
from tests.stores.shelf import store
from tests.stores.shelf.library import ATTRIBUTES, CHUNKS, SNAPSHOTS, ShelfError
from tests.stores.shelf.world import World


class ShelfSubject:
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

    def live_otherwise(self) -> Mapping[str, SnapshotId]:
        world, shelf = self._world, self._world.shelf
        _, on_branch = self._on_branch("side")
        tagged_branch, tagged = self._on_branch("tagged")
        shelf.tag("v1", tagged)
        merged_branch, merged = self._on_branch("merged")
        world.merge("main", merged_branch)
        for branch in (tagged_branch, merged_branch):
            shelf.delete_branch(branch)
        return {"branch": on_branch, "tag": tagged, "merge": merged}

    def dead(self) -> SnapshotId:
        branch, made = self._on_branch("old")
        self._world.shelf.delete_branch(branch)
        return made

    def dead_pair(self) -> tuple[SnapshotId, SnapshotId]:
        branch, first = self._on_branch("old")
        second = SnapshotId(self._world.commit(branch, f"d/{self._made}", days=10))
        self._world.shelf.delete_branch(branch)
        return first, second

    def _on_branch(self, name: str) -> tuple[str, SnapshotId]:
        """A branch of its own, and a snapshot there."""
        self._made += 1
        shelf, branch = self._world.shelf, f"{name}-{self._made}"
        shelf.branch(branch, shelf.read().branches["main"])
        return branch, SnapshotId(self._world.commit(branch, f"c/{self._made}"))

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

    def shorten(self) -> bool:
        dead, shelf = self.dead(), self._world.shelf
        address = shelf.index_address(shelf.read().number)
        document = json.loads(self._world.storage.get(address))
        del document["snapshots"][dead]
        self._world.storage.put(address, json.dumps(document).encode())
        return True

    def age(self) -> None:
        self._world.age()

    def wait(self, time: timedelta) -> None:
        self._world.clock.advance(seconds=time.total_seconds())

    def hold(self, snapshot: SnapshotId, length: timedelta) -> str:
        return self._world.store().take_lease(snapshot, holder="contract", length=length).id

    def interrupted(self, call: Callable[[], None]) -> Store:
        return self._world.store(InterruptedStorage(self._world.storage, call))

    @contextmanager
    def without_library(self) -> Iterator[None]:
        installed, store.LIBRARY = store.LIBRARY, "shelves_that_are_not_installed"
        try:
            yield
        finally:
            store.LIBRARY = installed

    def line(self) -> Sequence[SnapshotId]:
        paths = ("a/1", "b/1", "c/1")
        return [SnapshotId(self._world.commit("main", path, days=10)) for path in paths]

    def tag(self, name: str, snapshot: SnapshotId) -> None:
        self._world.shelf.tag(name, snapshot)

    def reached(self) -> set[SnapshotId]:
        return set(map(SnapshotId, self._world.live()))
