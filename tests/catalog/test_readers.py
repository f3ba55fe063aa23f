"""Readers hold the commit that they read, from the first read to the last."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, text

from reclaim.catalog import Branch, Catalog, Repository
from reclaim.catalog.database.transactions import ConnectionLost, Database
from reclaim.catalog.refs import leases as leasing
from reclaim.catalog.refs.leases import LeaseTimes
from reclaim.errors import Corrupt, DatabaseUnavailable, LeaseLapsed, NotFound
from reclaim.model import SnapshotId
from reclaim.stores.catalog import CatalogStore
from tests.catalog.leased import HOUR, eventually, held
from tests.conftest import Backend

pytestmark = pytest.mark.repeats(first=4)


@pytest.fixture
def refs(repo: Repository, commit: str) -> dict[str, str]:
    """Ways to name the commit other than by its branch."""
    repo.create_tag("v1", commit)
    return {"tag": "v1", "id": commit, "prefix": commit[:8], "expression": "main~0"}


@pytest.mark.remote_values(kind=["tag"])
@pytest.mark.parametrize("kind", ["tag", "id", "prefix", "expression"])
@pytest.mark.parametrize("read", ["get", "stat", "exists", "list", "stream", "entries", "open"])
def test_the_first_read_of_a_commit_takes_a_lease(
    repo: Repository, commit: str, refs: dict[str, str], kind: str, read: str
) -> None:
    reader = repo.at(refs[kind])
    assert repo.leases() == [], "nothing has been read"
    found = getattr(reader, read)("a")
    if isinstance(found, Iterator):
        next(found)
    [(lease, valid)] = repo.leases()
    assert (lease.snapshot, lease.length, valid) == (commit, 2 * HOUR, True)
    del reader, found
    assert eventually(lambda: repo.leases() == [])


def test_a_branch_is_read_as_it_is_and_without_a_lease(
    repo: Repository, main: Branch, commit: str
) -> None:
    reader = repo.at("main")
    assert reader.get("a") == b"x"
    main.put("a", b"y")
    assert reader.get("a") == b"y"
    assert (list(reader.stream("a")), len(reader.list().entries)) == ([b"y"], 1)
    assert repo.leases() == []
    repo.create_tag("v1", commit)
    repo.delete_tag("v1")
    repo.create_branch("v1", commit)
    assert repo.at("v1").get("a") == b"x"
    assert repo.leases() == []


def test_a_reader_stays_at_the_commit_that_it_opened(
    repo: Repository, main: Branch, commit: str
) -> None:
    repo.create_tag("v1", commit)
    by_tag, by_expression = repo.at("v1"), repo.at("main~0")
    assert by_tag.get("a") == by_expression.get("a") == b"x"
    main.put("a", b"y")
    second = main.commit("two").id
    repo.delete_tag("v1")
    repo.create_tag("v1", second)
    assert by_tag.get("a") == by_expression.get("a") == b"x"
    assert repo.at("v1").get("a") == repo.at("main~0").get("a") == b"y"
    assert by_expression.ref == "main~0"


def test_an_open_object_is_read_by_ranges(repo: Repository, main: Branch) -> None:
    main.put("a", b"0123456789")
    opened = main.open("a")
    main.put("a", b"other")
    assert opened.entry.size == 10
    assert [opened.read(2, 5), opened.read(8, 99), opened.read(0, 10)] == [
        b"234",
        b"89",
        b"0123456789",
    ]
    assert opened.read(5, 5) == opened.read(7, 3) == opened.read(20, 30) == b""
    with pytest.raises(NotFound, match="no object 'b'"):
        main.open("b")


@pytest.mark.parametrize("rest", [b"01234", b"", None])
def test_a_range_that_is_not_there_whole_is_an_error(
    catalog: Catalog, main: Branch, rest: bytes | None
) -> None:
    main.put("a", b"0123456789")
    opened = main.open("a")
    if rest is None:
        catalog.storage.delete(opened.entry.address)
    else:
        catalog.storage.put(opened.entry.address, rest)
    with pytest.raises(Corrupt, match=f"{opened.entry.address}"):
        opened.read(2, 8)


def test_the_collector_leaves_a_commit_alone_that_is_being_read(
    catalog: Catalog, repo: Repository, main: Branch, commit: str
) -> None:
    reader = repo.at(commit)
    reader.stat("a")
    main.reset_to(f"{commit}~1")
    dead = SnapshotId(commit)
    with CatalogStore(catalog.workspace("sales")).lock("run-7") as held:
        assert held.condemn({dead: "expired"}) == 0
        assert reader.get("a") == b"x"
        del reader
        assert eventually(lambda: repo.leases() == [])
        assert held.condemn({dead: "expired"}) == 1


def test_readers_of_one_instance_share_a_lease(
    backend: Backend, repo: Repository, commit: str
) -> None:
    readers = [repo.at(ref) for ref in (commit, commit[:8], "main~0")]
    for reader in readers:
        reader.stat("a")
    with repo.lease(commit):
        assert held(repo) == [commit]
        other = backend.open().repository("sales").at(commit)
        other.stat("a")
        assert held(repo) == [commit, commit]
        del other
        assert eventually(lambda: held(repo) == [commit])
    del reader
    while readers:
        assert held(repo) == [commit]
        readers.pop().stat("a")
    assert eventually(lambda: repo.leases() == [])


def test_threads_that_share_a_reader_open_it_once(
    repo: Repository, commit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    open_it = repo._leases.open

    def slowly(*args: Any) -> Any:
        opened.append("once")
        time.sleep(0.1)
        return open_it(*args)

    monkeypatch.setattr(repo._leases, "open", slowly)
    reader = repo.at(commit)
    threads = [threading.Thread(target=reader.get, args=("a",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert opened == ["once"]


def test_garbage_in_the_middle_of_a_transaction_does_not_ask_for_another(
    repo: Repository, commit: str
) -> None:
    reader = repo.at(commit)
    reader.stat("a")
    started = time.monotonic()
    with repo._workspace.database.write() as connection:
        connection.execute(text("UPDATE leases SET holder = holder"))
        del reader
        assert time.monotonic() - started < 10
    assert eventually(lambda: repo.leases() == [])


def test_renewing_goes_on_while_readers_come_and_go(
    repo: Repository, commit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = repo._leases
    book.times = LeaseTimes(refresh=timedelta(seconds=1))
    renewed = threading.Event()
    monkeypatch.setattr(book, "renew", renewed.set)
    deadline = time.monotonic() + 20
    with repo.lease(commit):
        while not renewed.is_set() and time.monotonic() < deadline:
            repo.at(commit).stat("a")
    assert renewed.is_set()


def test_closing_gives_all_back_in_one_transaction(
    backend: Backend, repo: Repository, main: Branch, commit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    main.put("b", b"y")
    second = main.commit("two").id
    other = repo.take_lease("main", holder="job 7", length=HOUR)
    instance = backend.open()
    readers = [instance.repository("sales").at(ref) for ref in (commit, second, commit)]
    for reader in readers:
        reader.stat("a")
    assert len(repo.leases()) == 3
    transactions: list[int] = []
    transact = Database.transact

    def counted(database: Database, work: Any) -> Any:
        transactions.append(1)
        return transact(database, work)

    monkeypatch.setattr(Database, "transact", counted)
    instance.close()
    assert transactions == [1]
    assert [lease for lease, _ in repo.leases()] == [other]
    for reader in readers:
        with pytest.raises(LeaseLapsed, match="closed"):
            reader.get("a")
    instance.close()
    assert transactions == [1]


def test_closing_when_the_database_is_away_is_no_error(
    backend: Backend, repo: Repository, commit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise DatabaseUnavailable("the database is away")

    instance = backend.open()
    reader = instance.repository("sales").at(commit)
    reader.stat("a")
    with monkeypatch.context() as patch:
        patch.setattr(Database, "transact", away)
        instance.close()
    assert held(repo) == [commit], "it lapses by itself"


@pytest.fixture
def read_only(backend: Backend, repo: Repository, commit: str) -> Iterator[Repository]:
    """The repository, as an instance sees it that may not write to the database."""
    opened = backend.open().repository("sales")
    engine = opened._workspace.database._engine

    def restrict(connection: Any, *_: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA query_only = ON")
        else:
            connection.execute("SET ROLE pg_read_all_data")
            connection.commit()

    engine.dispose()
    event.listen(engine, "connect", restrict)
    yield opened
    event.remove(engine, "connect", restrict)


def test_a_database_that_cannot_be_written_is_read_without_a_lease(
    read_only: Repository,
    repo: Repository,
    main: Branch,
    commit: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    reader = read_only.at("main~0")
    with caplog.at_level(logging.WARNING):
        assert reader.get("a") == b"x"
        assert read_only.at(commit).exists("a")
        assert list(read_only.diff(commit, f"{commit}~1"))
    [warning] = caplog.records
    assert "without a lease" in warning.message
    assert repo.leases() == []
    main.put("a", b"y")
    main.commit("two")
    assert reader.get("a") == b"x", "it stays at its commit all the same"
    with pytest.raises(DatabaseUnavailable, match="cannot be written"), read_only.lease(commit):
        pass


def test_a_connection_that_was_lost_is_no_reason_to_go_without_a_lease(
    repo: Repository, commit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object, **__: object) -> None:
        raise ConnectionLost("the connection was lost")

    def not_known(*_: object, **__: object) -> None:
        raise DatabaseUnavailable("whether it was saved is not known") from ConnectionLost("lost")

    for fault in (lost, not_known):
        monkeypatch.setattr(leasing, "take", fault)
        with pytest.raises(DatabaseUnavailable):
            repo.at(commit).get("a")
