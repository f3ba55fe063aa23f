"""Runs that die at a step, and catalogs that are set back to what they were before.

A step is what a process could die between: every commit of a transaction, every task of the plain
engine, every single write to the storage. The lock of a process that died stays taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Connection, event

from reclaim.catalog.collection import locks
from reclaim.catalog.database.schema import commits
from reclaim.storage import ObjectStorage
from reclaim.storage.buckets import Bucket
from tests.catalog import raw
from tests.collect.helpers.world import NAME, World
from tests.support.dying import Deaths, Died, Work, step_before, step_before_writes
from tests.support.resting import Resting


def dies(world: World, work: Work, fatal: int) -> bool:
    """Do something and die at a step, with the lock in hand; False when there are fewer steps."""
    deaths = Deaths(fatal)
    store = world.store()
    engine = store._workspace.database._engine

    def committing(connection: Connection) -> None:
        writes = connection.get_execution_options().get("reclaim_writes", False)
        (deaths.write if writes else deaths)()

    event.listen(engine, "commit", committing)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(locks, "_give_back", lambda *_: None)
            _step_through_writes(patch, deaths.write)
            work(world, store=store, step=deaths)
    except Died:
        return True
    finally:
        event.remove(engine, "commit", committing)
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
        runs = [(one.id, str(one.phase)) for one in repo.runs() if one.id == run]
        return cls(
            frozenset(world.there()),
            frozenset(world.aside()),
            frozenset((row.id, row.state, row.parents) for row in rows),
            frozenset((ref.name, ref.commit) for ref in refs),
            frozenset(runs),
        )


class Frozen:
    """A whole catalog as it was at one time, to go back to as often as one likes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._resting = Resting(world.backend)

    def thaw(self) -> World:
        """The catalog as it was; what was done to it since is forgotten."""
        self._world.repo = self._resting.restore(self._world.backend).repository(NAME)
        return self._world
