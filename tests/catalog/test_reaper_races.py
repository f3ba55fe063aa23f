"""Races with the reaper on PostgreSQL, by name, with connections that really run at once.

The reaper waits for nothing here, so that whatever it may take it takes at once. All races share a
catalog. Many rounds are prepared together: each is a race on a path or on a branch of its own, and
in some of them the reaper begins at the same moment. ``RECLAIM_SOAK=1`` makes each race run for
thousands of rounds.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import select

from reclaim.catalog import Branch, Catalog
from reclaim.catalog.database.schema import (
    LedgerState,
    TokenState,
    ledger,
    staged_entries,
    staging_tokens,
)
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
from reclaim.testing.servers import PostgreSQL
from tests.soak import SOAK

MANY = 5_000 if SOAK else 450
"""Rounds of a race on one path, of which a batch is on one branch."""
SEVERAL = 5_000 if SOAK else 40
"""Rounds of a race on a whole branch."""
BATCH = {"path": 75, "branch": 10}
HEAD_START = {"path": 0.01, "branch": 0.1}
"""In some rounds one is so many seconds ahead, or twice as many."""
FOLLOWS = {3: 0, 7: 1}
"""In two of ten rounds one of the two begins when the other has ended, so that both orders occur
on any machine."""
REAPED_IN = 4
"""In one of so many rounds the reaper begins together with the two."""
LOST_RACES = (Conflict, NotFound, NothingToCommit, TransactionFailed, AlreadyExists, Gone, Corrupt)
"""What one of two may be told. That something is missing, only because nothing has a margin here:
who copies bytes has looked them up before."""
MEMORY = Path("/dev/shm")

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
    folder = Path(
        tempfile.mkdtemp(prefix="reclaim-races-", dir=MEMORY if MEMORY.is_dir() else None)
    )
    location = postgres.new_database()
    with (
        pytest.MonkeyPatch.context() as patching,
        Catalog.init(location, storage=(folder / "objects").as_uri()) as first,
        Catalog.open(location) as second,
        Catalog.open(location) as third,
    ):
        patching.setattr(backlog, "MARGIN", timedelta(0))
        repo = first.create_repository("sales")
        repo.change_settings(hard_delete=True)
        yield first, second, third
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", RACES)
def test_a_race(catalogs: tuple[Catalog, ...], name: str) -> None:
    race = RACES[name]
    wanted = MANY if race.on == "path" else SEVERAL
    firsts: set[int] = set()
    rounds = 0
    while rounds < wanted:
        batch = Batch(catalogs, race, f"{name.replace(' ', '-')}-{rounds}")
        firsts |= batch.run()
        rounds += batch.size
    assert firsts == {0, 1}, "only one order of the two occurred"


class Batch:
    """Rounds that begin with one another, each on a path or a branch of its own."""

    def __init__(self, catalogs: tuple[Catalog, ...], race: Race, name: str) -> None:
        self._catalogs = catalogs
        self._race = race
        self.size = BATCH[race.on]
        self._ended = Barrier(2)
        self._took = [HEAD_START[race.on]] * 2
        """How long each of the two takes, at most."""
        repo = catalogs[0].repository("sales")
        if race.on == "path":
            repo.create_branch(name, "main")
            self._rounds = [(name, str(number)) for number in range(self.size)]
            repo.branch(name).put_many((f"a{number}", b"first") for number in range(self.size))
        else:
            self._rounds = [(f"{name}-{number}", "") for number in range(self.size)]
            for branch, _ in self._rounds:
                repo.create_branch(branch, "main").put("a", b"first")

    def run(self) -> set[int]:
        """Run the rounds while the reaper is at work, and check what became of them."""
        two, three = Barrier(2), Barrier(3)
        barriers = [two if at % REAPED_IN else three for at in range(self.size)]
        with ThreadPoolExecutor(3) as pool:
            reaping = pool.submit(self._reap, [barrier for barrier in barriers if barrier is three])
            acting = [
                pool.submit(self._act, number, act, barriers)
                for number, act in enumerate((self._race.first, self._race.second))
            ]
            won = zip(*(task.result() for task in acting), strict=True)
            reaping.result()
        self._catalogs[2].reap()
        check(self._catalogs[0])
        return self._who_was_first(list(won))

    def _act(self, number: int, act: Act, barriers: Sequence[Barrier]) -> list[bool]:
        """Act in each round, now and then a little later than the other."""
        chance = random.Random(number)
        repo = self._catalogs[number].repository("sales")
        results = []
        for at, ((branch, name), barrier) in enumerate(zip(self._rounds, barriers, strict=True)):
            handle = repo.branch(branch)
            follower = FOLLOWS.get(at % 10)
            barrier.wait()
            if follower == number:
                self._ended.wait()
            elif follower is None:
                # Otherwise the longer of two would never be first with what matters.
                time.sleep(chance.choice((0, 0, chance.uniform(0, 2 * self._took[1 - number]))))
            began = time.monotonic()
            try:
                act(handle, name)
                results.append(True)
            except LOST_RACES:
                results.append(False)
            self._took[number] = max(self._took[number], time.monotonic() - began)
            if follower == 1 - number:
                self._ended.wait()
        return results

    def _reap(self, barriers: Sequence[Barrier]) -> None:
        for barrier in barriers:
            barrier.wait()
            self._catalogs[2].reap()

    def _who_was_first(self, won: Sequence[Sequence[bool]]) -> set[int]:
        """Read what the rounds have left, and say who was first in them."""
        repo = self._catalogs[0].repository("sales")
        shown, heads = {}, {}
        for branch in {branch for branch, _ in self._rounds}:
            shown[branch] = self._read(repo.at(branch))
            heads[branch] = self._read(repo.at(repo.commit(branch).id))
        firsts = set()
        for (branch, name), (first, second) in zip(self._rounds, won, strict=True):
            seen, head = (
                {path: files[path + name] for path in ("a", "b", "c") if path + name in files}
                for files in (shown[branch], heads[branch])
            )
            firsts.add(self._race.who_was_first((first, second), seen, head))
        return firsts

    def _read(self, reader: RefReader) -> dict[str, bytes]:
        storage = self._catalogs[0].storage
        return {entry.path: storage.get(entry.address) for entry in reader.entries()}


def check(catalog: Catalog) -> None:
    """Nothing that is staged is condemned, and its bytes are there."""
    holding = (TokenState.OPEN, TokenState.SEALED, TokenState.COMMITTED)
    held = (
        select(staged_entries.c.address, ledger.c.state)
        .join(staging_tokens, staging_tokens.c.id == staged_entries.c.token_id)
        .outerjoin(ledger, staged_entries.c.address == ledger.c.address)
        .where(staged_entries.c.owned, staging_tokens.c.state.in_(holding))
    )
    with catalog._database.read() as connection:
        rows = connection.execute(held).all()
    assert not [row for row in rows if row.state not in (None, LedgerState.LIVE)]
    there = {stored.address for stored in catalog.storage.list("repos/")}
    assert {row.address for row in rows if row.address} <= there
