"""Writers stall after an upload, while a run closes their partitions and takes what is in there.

The run's clock is so far ahead that every partition is overdue. It reads what is referred to once
the partitions are closed, and deletes all else in them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from threading import Barrier

from reclaim.catalog import Branch, Catalog, Repository
from reclaim.catalog.database.schema import commits, staged_entries
from reclaim.catalog.staging.partitions import OVERDUE
from reclaim.errors import TransactionFailed
from reclaim.storage import hashed_files
from reclaim.stores.catalog import CatalogStore, HeldRepository
from reclaim.testing import FakeClock
from tests.catalog.raw import partition_of
from tests.collect.helpers.world import NAME, World, addresses_in
from tests.support.rounds import Orders, Pace, check_staged, run_together
from tests.support.stalling import IN_PARTITIONS, LONGEST, StallingStorage, stall, stall_inserts

BATCH = 9
INSTANCES = 2
WRITERS = 4
RUN = "run-late"

OPERATIONS: dict[str, Callable[[Branch, int], str]] = {
    "put": lambda branch, at: branch.put(f"{at % 5}", f"put {at}".encode()).address,
    "copy": lambda branch, at: branch.copy("aside", f"copy {at % 5}", source_ref="aside").address,
    "commit": lambda branch, at: branch.commit(f"commit {at}").metarange,
}
"""What a writer does in a round; the address of what it wrote and refers to."""


class Writer:
    """A thread of an instance, which works on a branch of its own in each batch."""

    def __init__(self, instance: Repository, number: int) -> None:
        self._instance = instance
        self._number = number

    def work(
        self, branch_name: str, rounds: range, meeting: Barrier, pace: Pace, orders: Orders
    ) -> None:
        chance = random.Random(rounds.start + self._number)
        kinds = list(OPERATIONS)
        branch = self._instance.branch(branch_name)
        for at in rounds:
            kind = kinds[(at + self._number) % len(kinds)]
            partition = self._prepare(branch, kind, at)
            meeting.wait()
            first = pace.act(0, at, chance, partial(_act, branch, kind, at, partition))
            meeting.wait()
            orders.note(kind, first)

    def _prepare(self, branch: Branch, kind: str, at: int) -> str:
        """Have something to commit, and an open partition, whose name is returned."""
        partitions = self._instance._workspace.partitions
        partitions.renew()
        if kind == "commit":
            branch.put("changed", f"change {at}".encode())
        with partitions.use(self._instance.uid) as partition:
            return partition.id


def _act(branch: Branch, kind: str, at: int, partition: str) -> int:
    """Who was first: 0 if what was written could stay, 1 if it had to be written elsewhere."""
    try:
        address = OPERATIONS[kind](branch, at)
    except TransactionFailed:
        return 1
    return int(partition_of(address) != partition)


class ClosedPartition:
    """Rounds of the race. The side that is first is 0 for a writer, 1 for the run."""

    def __init__(self, world: World) -> None:
        self._world = world
        aside = world.repo.create_branch("aside", "main")
        aside.put("aside", b"aside")
        aside.commit("aside")
        instances = [self._instance(number) for number in range(INSTANCES)]
        self._writers = [Writer(instances[number % INSTANCES], number) for number in range(WRITERS)]
        backend = world.backend
        ahead = FakeClock(world.clock.now() + OVERDUE + timedelta(minutes=1))
        catalog = Catalog.open(backend.location, clock=ahead, wrap_storage=backend.wrap)
        self._late = backend._opened.enter_context(catalog)
        self._store = CatalogStore(self._late.workspace(NAME))
        self._contents: dict[str, set[str]] = {}
        """What commits need, by their metaranges."""
        self._rounds = 0
        for table in (staged_entries, commits):
            stall_inserts(catalog, table, share=0.25)

    def _instance(self, number: int) -> Repository:
        storage = StallingStorage(self._world.backend.clocked, random.Random(number))
        return self._world.other(lambda _storage: storage)

    def batch(self, orders: Orders) -> int:
        rounds = range(self._rounds, self._rounds + BATCH)
        self._rounds += BATCH
        meeting, pace = Barrier(WRITERS + 1), Pace(LONGEST, WRITERS + 1)
        names = [f"branch-{number}" for number in range(WRITERS)]
        for name in names:
            self._world.repo.create_branch(name, "main")
        writing = [
            partial(writer.work, name, rounds, meeting, pace, orders)
            for name, writer in zip(names, self._writers, strict=True)
        ]
        run_together([*writing, partial(self._close, rounds, meeting, pace)], [meeting, pace.ended])
        self._check()
        for name in names:
            self._world.repo.delete_branch(name)
        return BATCH * WRITERS

    def _close(self, rounds: range, meeting: Barrier, pace: Pace) -> None:
        chance = random.Random(-rounds.start)
        with self._store.lock(RUN) as held:
            for at in rounds:
                meeting.wait()
                pace.act(1, at, chance, partial(self._close_and_take, held, chance))
                meeting.wait()

    def _close_and_take(self, held: HeldRepository, chance: random.Random) -> None:
        """Close what is overdue, see what is needed, and delete the rest of it."""
        # About as late as a writer has uploaded and begins to stage.
        time.sleep(chance.uniform(0, 3 * LONGEST))
        held.close_overdue()
        stall(chance)
        _, prefix = self._store.place(RUN)
        storage = self._store.storage
        roots = self._store.roots(storage, prefix, settled=True)
        needed: set[str] = set()
        for file in roots.files:
            needed |= {*hashed_files.read(storage, prefix + file).column("address").to_pylist()}
        for metarange in filter(None, roots.metaranges.values()):
            needed |= self._contents_of(metarange)
        stall(chance)
        for folder in IN_PARTITIONS:
            for stored in list(storage.list(self._store.format.prefix + folder[1:])):
                if partition_of(stored.address) in roots.closed and stored.address not in needed:
                    storage.delete(stored.address)

    def _contents_of(self, metarange: str) -> set[str]:
        if metarange not in self._contents:
            self._contents[metarange] = addresses_in(self._late.repository(NAME), metarange)
        return self._contents[metarange]

    def _check(self) -> None:
        """All that can be reached, or is staged, reads back its own bytes."""
        with self._world.opened() as catalog:
            self._world.check(catalog.repository(NAME))
            check_staged(catalog)
