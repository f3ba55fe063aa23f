"""Races with the reaper on PostgreSQL, by name, with connections that really run at once.

The reaper waits for nothing here, so that whatever it may take it takes at once. All races share a
catalog. Many rounds are prepared together: each is a race on a path or on a branch of its own, and
in some of them the reaper begins at the same moment. ``RECLAIM_SOAK=1`` makes each race run for
thousands of rounds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from threading import Barrier

import pytest

from reclaim.catalog import Branch, Catalog
from reclaim.catalog.reaping import backlog
from reclaim.catalog.refs import refs
from reclaim.catalog.refs.reading import RefReader
from reclaim.errors import (
    AlreadyExists,
    Conflict,
    Corrupt,
    Gone,
    NotFound,
    NothingToCommit,
    TransactionFailed,
)
from tests.support.memory import folder_in_memory
from tests.support.rounds import Orders, Pace, check_staged, run_together
from tests.support.servers import PostgreSQL
from tests.support.soak import SOAK

MANY = 5_000 if SOAK else 150
"""Rounds of a race on one path, of which a batch is on one branch."""
SEVERAL = 5_000 if SOAK else 20
"""Rounds of a race on a whole branch."""
BATCH = {"path": 75, "branch": 10}
HEAD_START = {"path": 0.01, "branch": 0.1}
"""In some rounds one is so many seconds ahead, or twice as many."""
REAPED_IN = 4
"""In one of so many rounds the reaper begins together with the two."""
LOST_RACES = (Conflict, NotFound, NothingToCommit, TransactionFailed, AlreadyExists, Gone, Corrupt)
"""What one of two may be told. That something is missing, only because nothing has a margin here:
who copies bytes has looked them up before."""

Act = Callable[[Branch, str], object]
"""Does something to a path of a branch."""
Won = tuple[bool, bool]


@dataclass(frozen=True)
class Race:
    """Two that meet on the staged path ``a`` of a round, or on all of its branch.

    ``who_was_first`` says it from who won, and from what the branch shows at ``a``, ``b`` and ``c``
    afterwards, and what its head does.
    """

    first: Act
    second: Act
    who_was_first: Callable[[Won, dict[str, bytes], dict[str, bytes]], int]
    on: str = "path"


def commit(branch: Branch, _name: str) -> None:
    branch.commit("c")


def reset(branch: Branch, _name: str) -> None:
    branch.reset()


def move(source: str, target: str) -> Act:
    return lambda branch, name: branch.move(source + name, target + name)


def copy(branch: Branch, name: str) -> None:
    branch.copy("a" + name, "b" + name)


def put(branch: Branch, name: str) -> None:
    branch.put("a" + name, b"late")


def delete(branch: Branch, name: str) -> None:
    branch.delete("a" + name)


def reset_path(branch: Branch, name: str) -> None:
    branch.reset_path("a" + name)


def recreate(branch: Branch, _name: str) -> None:
    refs.delete_branch(branch._workspace, branch.name)
    refs.create_branch(branch._workspace, branch.name, "main")


def link(branch: Branch, name: str) -> None:
    given = branch.get_physical_address("b" + name)
    branch._workspace.storage.put(given.address, b"linked")
    branch.link_physical_address("b" + name, given)


RACES: dict[str, Race] = {
    "commit and move": Race(
        commit, move("a", "b"), lambda _won, _shown, head: int("b" in head), on="branch"
    ),
    "delete and move": Race(
        delete, move("a", "b"), lambda won, _shown, _head: int(won[1]), on="path"
    ),
    "two moves": Race(move("a", "b"), move("a", "c"), lambda won, _shown, _head: int(won[1])),
    "write after commit": Race(
        commit, put, lambda _won, _shown, head: int(head.get("a") == b"late"), on="branch"
    ),
    "reset during commit": Race(
        commit, reset, lambda won, _shown, _head: int(not won[0]), on="branch"
    ),
    "reset of a path during commit": Race(
        commit, reset_path, lambda _won, _shown, head: int("a" not in head), on="branch"
    ),
    "branch recreated during commit": Race(
        commit, recreate, lambda won, _shown, _head: int(not won[0]), on="branch"
    ),
    "delete and copy": Race(delete, copy, lambda won, _shown, _head: int(won[1])),
    "overwrite and copy": Race(
        put, copy, lambda _won, shown, _head: int(shown.get("b") == b"first")
    ),
    "link and reset": Race(link, reset, lambda _won, shown, _head: int("b" in shown), on="branch"),
}


@pytest.fixture(scope="module")
def catalogs(postgres: PostgreSQL) -> Iterator[tuple[Catalog, ...]]:
    location = postgres.new_database()
    with (
        folder_in_memory() as folder,
        pytest.MonkeyPatch.context() as patching,
        Catalog.init(location, storage=(folder / "objects").as_uri()) as first,
        Catalog.open(location) as second,
        Catalog.open(location) as third,
    ):
        patching.setattr(backlog, "MARGIN", timedelta(0))
        repo = first.create_repository("sales")
        repo.change_settings(hard_delete=True)
        yield first, second, third


@pytest.mark.parametrize("name", RACES)
def test_a_race(catalogs: tuple[Catalog, ...], name: str) -> None:
    race = RACES[name]
    wanted = MANY if race.on == "path" else SEVERAL
    orders = Orders()
    while orders.counts.total() < wanted:
        batch = Batch(catalogs, race, f"{name.replace(' ', '-')}-{orders.counts.total()}")
        for first in batch.run():
            orders.note(name, first)
    orders.check()


class Batch:
    """Rounds that begin with one another, each on a path or a branch of its own."""

    def __init__(self, catalogs: tuple[Catalog, ...], race: Race, name: str) -> None:
        self._catalogs = catalogs
        self._race = race
        self.size = BATCH[race.on]
        self._pace = Pace(HEAD_START[race.on])
        repo = catalogs[0].repository("sales")
        if race.on == "path":
            repo.create_branch(name, "main")
            self._rounds = [(name, str(number)) for number in range(self.size)]
            repo.branch(name).put_many((f"a{number}", b"first") for number in range(self.size))
        else:
            self._rounds = [(f"{name}-{number}", "") for number in range(self.size)]
            for branch, _ in self._rounds:
                repo.create_branch(branch, "main").put("a", b"first")

    def run(self) -> list[int]:
        """Run the rounds while the reaper is at work, and check what became of them.

        Returns who was first in each.
        """
        two, three = Barrier(2), Barrier(3)
        barriers = [two if at % REAPED_IN else three for at in range(self.size)]
        won: list[list[bool]] = [[], []]
        run_together(
            [
                partial(self._reap, [barrier for barrier in barriers if barrier is three]),
                partial(self._act, 0, self._race.first, barriers, won[0]),
                partial(self._act, 1, self._race.second, barriers, won[1]),
            ],
            [two, three, self._pace.ended],
        )
        self._catalogs[2].reap()
        check_staged(self._catalogs[0])
        return self._who_was_first(list(zip(*won, strict=True)))

    def _act(self, number: int, act: Act, barriers: Sequence[Barrier], won: list[bool]) -> None:
        """Act in each round, now and then a little later than the other."""
        chance = random.Random(number)
        repo = self._catalogs[number].repository("sales")
        for at, ((branch, name), barrier) in enumerate(zip(self._rounds, barriers, strict=True)):
            attempt = partial(self._attempt, act, repo.branch(branch), name)
            barrier.wait()
            won.append(self._pace.act(number, at, chance, attempt))

    def _attempt(self, act: Act, branch: Branch, name: str) -> bool:
        try:
            act(branch, name)
        except LOST_RACES:
            return False
        return True

    def _reap(self, barriers: Sequence[Barrier]) -> None:
        for barrier in barriers:
            barrier.wait()
            self._catalogs[2].reap()

    def _who_was_first(self, won: Sequence[Won]) -> list[int]:
        """Read what the rounds have left, and say who was first in each."""
        repo = self._catalogs[0].repository("sales")
        shown, heads = {}, {}
        for branch in {branch for branch, _ in self._rounds}:
            shown[branch] = self._read(repo.at(branch))
            heads[branch] = self._read(repo.at(repo.commit(branch).id))
        firsts = []
        for (branch, name), (first, second) in zip(self._rounds, won, strict=True):
            seen, head = (
                {path: files[path + name] for path in ("a", "b", "c") if path + name in files}
                for files in (shown[branch], heads[branch])
            )
            firsts.append(self._race.who_was_first((first, second), seen, head))
        return firsts

    def _read(self, reader: RefReader) -> dict[str, bytes]:
        storage = self._catalogs[0].storage
        return {entry.path: storage.get(entry.address) for entry in reader.entries()}
