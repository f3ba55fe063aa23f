"""Races with the reaper on PostgreSQL, by name, with connections that really run at once.

The reaper waits for nothing here, so that whatever it may take it takes at once.
``RECLAIM_SOAK=1`` makes each race run for thousands of rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
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
from reclaim.errors import (
    AlreadyExists,
    Conflict,
    Corrupt,
    Gone,
    NotFound,
    NothingToCommit,
    ReclaimError,
    TransactionFailed,
)
from reclaim.testing.servers import PostgreSQL
from tests.soak import SOAK

ROUNDS, SECONDS = (5_000, 600.0) if SOAK else (200, 5.0)
"""Of each race: so many rounds, or as many as there is time for."""
LOST_RACES = (Conflict, NotFound, NothingToCommit, TransactionFailed, AlreadyExists, Gone, Corrupt)
"""What one of two may be told. That something is missing, only because nothing has a margin here:
who copies bytes has looked them up before."""
Act = Callable[[Branch], object]


def recreate(branch: Branch) -> None:
    refs.delete_branch(branch._workspace, branch.name)
    refs.create_branch(branch._workspace, branch.name, "main")


def link(branch: Branch) -> None:
    given = branch.get_physical_address("linked")
    branch._workspace.storage.put(given.address, b"linked")
    branch.link_physical_address("linked", given)


RACES: dict[str, tuple[Act, Act]] = {
    "commit and move": (lambda work: work.commit("c"), lambda work: work.move("a", "b")),
    "delete and move": (lambda work: work.delete("a"), lambda work: work.move("a", "b")),
    "two moves": (lambda work: work.move("a", "b"), lambda work: work.move("a", "c")),
    "write after commit": (lambda work: work.commit("c"), lambda work: work.put("a", b"late")),
    "reset during commit": (lambda work: work.commit("c"), lambda work: work.reset()),
    "reset of a path during commit": (
        lambda work: work.commit("c"),
        lambda work: work.reset_path("a"),
    ),
    "branch recreated during commit": (lambda work: work.commit("c"), recreate),
    "delete and copy": (lambda work: work.delete("a"), lambda work: work.copy("a", "b")),
    "overwrite and copy": (lambda work: work.put("a", b"new"), lambda work: work.copy("a", "b")),
    "link and reset": (link, lambda work: work.reset()),
}


@pytest.fixture
def catalogs(
    postgres: PostgreSQL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Catalog, ...]]:
    monkeypatch.setattr(backlog, "MARGIN", timedelta(0))
    location = postgres.new_database()
    with Catalog.init(location, storage=(tmp_path / "objects").as_uri()) as first:
        repo = first.create_repository("sales")
        repo.change_settings(hard_delete=True)
        repo.create_branch("work")
        with Catalog.open(location) as second, Catalog.open(location) as third:
            yield first, second, third


@pytest.mark.parametrize("name", RACES)
def test_a_race(catalogs: tuple[Catalog, ...], name: str) -> None:
    branches = [catalog.repository("sales").branch("work") for catalog in catalogs]
    barrier = Barrier(3)
    ends = time.monotonic() + SECONDS
    rounds = 0
    with ThreadPoolExecutor(3) as pool:

        def act(one: Act, branch: Branch) -> bool:
            barrier.wait()
            try:
                one(branch)
            except LOST_RACES:
                return False
            return True

        def reap() -> int:
            barrier.wait()
            return sum(done.objects for done in catalogs[2].reap())

        won: set[tuple[bool, ...]] = set()
        while rounds < ROUNDS and time.monotonic() < ends:
            branches[0].put("a", b"%d" % rounds)
            acts = [
                pool.submit(act, one, branch)
                for one, branch in zip(RACES[name], branches[:2], strict=True)
            ]
            taking = pool.submit(reap)
            won.add(tuple(done.result() for done in acts))
            taking.result()
            catalogs[2].reap()
            check(catalogs[0], branches[0])
            rounds += 1
            if rounds % 2:
                with suppress(ReclaimError):
                    branches[0].commit("between")
    assert rounds
    assert any(any(winners) for winners in won)


def check(catalog: Catalog, branch: Branch) -> None:
    """All that the branch shows reads back, and nothing staged is condemned."""
    for entry in branch.entries():
        assert len(branch.get(entry.path)) == entry.size
    holding = (TokenState.OPEN, TokenState.SEALED, TokenState.COMMITTED)
    dangling = (
        select(ledger.c.address)
        .join(staged_entries, staged_entries.c.address == ledger.c.address)
        .join(staging_tokens, staging_tokens.c.id == staged_entries.c.token_id)
        .where(ledger.c.state == LedgerState.CONDEMNED, staging_tokens.c.state.in_(holding))
    )
    with catalog._database.read() as connection:
        assert connection.execute(dangling).all() == []
