"""Runs that die at a step, and catalogs that are set back to what they were before.

A step is what a process could die between: every commit of a transaction, every task of the plain
engine, every single write to the storage. The lock of a process that died stays taken.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from reclaim.catalog.collection import locks
from reclaim.catalog.database.schema import commits
from reclaim.storage import ObjectStorage
from reclaim.storage.buckets import Bucket
from reclaim.testing.servers import PostgreSQL
from tests.catalog import raw
from tests.collect.world import NAME, World
from tests.dying import Countdown, Died, Work, step_before, step_before_writes


def dies(world: World, work: Work, fatal: int) -> bool:
    """Do something and die at a step, with the lock in hand; False when there are fewer steps."""
    countdown = Countdown(fatal)
    store = world.store()
    engine = store._workspace.database._engine
    event.listen(engine, "commit", countdown)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(locks, "_give_back", lambda *_: None)
            _step_through_writes(patch, countdown)
            work(world, store=store, step=countdown)
    except Died:
        return True
    finally:
        event.remove(engine, "commit", countdown)
    return False


def _step_through_writes(patch: pytest.MonkeyPatch, step: Callable[[], None]) -> None:
    """Each write is a step, and so is each object of a page and each half of a move."""
    page = ObjectStorage.delete_page

    def delete_page(self: ObjectStorage, addresses: Any) -> None:
        for address in addresses:
            step()
            page(self, [address])

    step_before_writes(patch, step)
    step_before(patch, step, Bucket, "delete")
    patch.setattr(ObjectStorage, "delete_page", delete_page)


@dataclass(frozen=True)
class End:
    """All that a run leaves that a later one, or a reader, could see."""

    there: frozenset[str]
    aside: frozenset[str]
    commits: frozenset[tuple[str, str, str]]
    refs: frozenset[tuple[str, str]]
    runs: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, world: World, run: str) -> End:
        repo = world.repo
        rows = raw.rows(repo, commits)
        refs = [*repo.branches(), *repo.tags()]
        runs = [(one.id, str(one.state)) for one in repo.runs() if one.id == run]
        return cls(
            frozenset(world.there()),
            frozenset(world.aside()),
            frozenset((row.id, row.state, row.parents) for row in rows),
            frozenset((ref.name, ref.commit) for ref in refs),
            frozenset(runs),
        )


class Frozen:
    """A whole catalog as it was at one time, to go back to as often as one likes."""

    def __init__(self, world: World, folder: Path, postgres: PostgreSQL | None) -> None:
        self._world = world
        self._postgres = postgres
        self._now = world.clock.now()
        self._copy = folder / "frozen"
        self._objects: dict[str, bytes] = {}
        self._times: dict[str, Any] = {}
        backend = world.backend
        if postgres is None:
            backend.close()
            shutil.copytree(backend.location, self._copy)
            return
        assert backend._clocked is not None
        assert backend.storage is not None
        self._objects = {one.address: world.storage.get(one.address) for one in self._list()}
        self._times = dict(backend._clocked._times)
        backend.close()
        self._template = postgres.copy_database(backend.location, storage=backend.storage)

    def _list(self) -> list[Any]:
        return list(self._world.storage.list())

    def thaw(self) -> World:
        """The catalog as it was; what was done to it since is forgotten."""
        world, backend = self._world, self._world.backend
        backend.close()
        world.clock.set(self._now)
        if self._postgres is None:
            shutil.rmtree(backend.location)
            shutil.copytree(self._copy, backend.location)
        else:
            assert backend._clocked is not None
            assert backend.storage is not None
            there = {one.address: one.size for one in self._list()}
            for address in there.keys() - self._objects.keys():
                world.storage.delete(address)
            for address, data in self._objects.items():
                if there.get(address) != len(data):
                    world.storage.put(address, data)
            backend._clocked._times = dict(self._times)
            backend.location = self._postgres.copy_database(self._template, storage=backend.storage)
        catalog = world.opened()
        # A copy of a database is another one, and the collector would refuse it.
        catalog.home.register()
        world.repo = catalog.repository(NAME)
        return world
