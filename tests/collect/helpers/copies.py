"""Copies of a catalog's database that work on the same storage."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from reclaim.catalog import Catalog
from reclaim.errors import ReclaimError
from reclaim.stores.catalog import CatalogStore
from tests.collect.helpers.world import NAME, World
from tests.support.servers import PostgreSQL


class Copy:
    """A copy of a world's database, as it is while the original has something open."""

    def __init__(self, world: World, folder: Path, postgres: PostgreSQL | None = None) -> None:
        self._world = world
        if postgres is None:
            location = str(self._copy_file(folder))
        else:
            # A template must not be in use; connections come back when they are needed.
            world.repo._workspace.database.close()
            location = postgres.copy_database(world.backend.location, storage=world.storage.url)
        self.catalog = Catalog.open(location, clock=world.clock, wrap_storage=world.backend.wrap)

    def _copy_file(self, folder: Path) -> Path:
        copy = folder / "copy"
        copy.mkdir(parents=True)
        source = sqlite3.connect(Path(self._world.backend.location) / "catalog.db")
        target = sqlite3.connect(copy / "catalog.db")
        source.backup(target)
        target.execute(
            "UPDATE catalog_info SET value = ? WHERE key = 'storage'", (self._world.storage.url,)
        )
        target.commit()
        target.close()
        source.close()
        return copy

    def become_home(self) -> None:
        """Take the identity out of the way: only what is in the storage tells the two apart."""
        self.catalog.home.register()

    def store(self) -> CatalogStore:
        return CatalogStore(self.catalog.workspace(NAME))

    def collect(self) -> ReclaimError | None:
        """Plan and apply, twice, so that what the first run closes is taken by the second."""
        try:
            for _ in range(2):
                plan = self._world.plan(store=self.store(), allowed_fraction=1.0)
                self._world.apply(plan, store=self.store())
                self._world.age()
        except ReclaimError as error:
            return error
        return None
