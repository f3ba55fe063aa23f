"""A server at work on a store: transactions, squashed graphs, rollups, leases, in any order."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from reclaim.errors import Gone
from reclaim.model import Lease, SnapshotId
from tests.support.terminus import TerminusDatabase
from tests.terminus.world import World


class Server:
    """Does one thing at a time. What it did lies a second behind what it does next."""

    def __init__(self, world: World, random: Random) -> None:
        self.world = world
        self.random = random
        self.databases: list[TerminusDatabase] = []
        self.leases: list[Lease] = []
        self.refused = 0
        self._made = 0
        self.create()

    ACTIONS = (
        *("commit", "commit", "fail", "squash", "roll_up", "create", "delete"),
        *("hold", "give_back", "clone"),
    )

    def act(self, name: str) -> None:
        self.world.clock.advance(seconds=1)
        write = self.world.write
        write.archives = self.random.random() < 0.8
        action: Callable[[], object] = getattr(self, name)
        action()

    def _database(self) -> TerminusDatabase:
        return self.random.choice(self.databases)

    def create(self) -> None:
        self._made += 1
        database = TerminusDatabase(self.world.write, f"admin|db{self._made}")
        self.databases.append(database)
        database.commit([f"first of {self._made}"])

    def commit(self) -> None:
        self._database().commit([f"value {self.random.random()}"])

    def fail(self) -> None:
        self._database().fail(["bad"], late=self.random.random() < 0.5)

    def squash(self) -> None:
        self._database().squash()

    def roll_up(self) -> None:
        database = self._database()
        database.roll_up()
        database.roll_up_commits()

    def delete(self) -> None:
        if len(self.databases) > 1:
            self.databases.remove(gone := self._database())
            gone.delete()

    def hold(self) -> SnapshotId | None:
        """Hold any layer that there is, dead or not; what is being collected is refused."""
        there = sorted(self.world.contents().layers)
        layer = self.random.choice(there)
        try:
            self.leases.append(self.world.store().take_lease(layer, holder="server"))
        except Gone:
            self.refused += 1
            return None
        return layer

    def give_back(self) -> None:
        if self.leases:
            lease = self.leases.pop(self.random.randrange(len(self.leases)))
            self.world.store().release_lease(lease.id)

    def clone(self) -> None:
        """Take up a layer that may be dead: hold it, let a label name it, let it go."""
        layer = self.hold()
        if layer is not None:
            self._made += 1
            self.world.write.label(f"clone {self._made}", layer)
            lease = self.leases.pop()
            self.world.store().release_lease(lease.id)

    def forget_leases(self) -> None:
        """As time goes by they lapse."""
        self.leases.clear()
