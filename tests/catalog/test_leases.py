"""Leases: taken, renewed, lapsed, refused, and a holder that stops itself in time."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, text

from reclaim.catalog import Branch, Catalog, Reader, Repository
from reclaim.catalog import leases as leasing
from reclaim.catalog.database import ConnectionLost, Database
from reclaim.catalog.leases import Leases, LeaseTimes
from reclaim.catalog.schema import CommitState
from reclaim.cli.main import main as command
from reclaim.errors import (
    DatabaseUnavailable,
    Gone,
    InvalidInput,
    LeaseLapsed,
    NotFound,
    ReclaimError,
    TransactionFailed,
)
from reclaim.testing import FakeClock
from tests.catalog import raw
from tests.conftest import Backend

HOUR = timedelta(hours=1)


def eventually(holds: Callable[[], bool]) -> bool:
    """Whether something comes true; what is garbage is given back in the background."""
    deadline = time.monotonic() + 20
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def held(repo: Repository) -> list[str]:
    return [lease.snapshot for lease, _ in repo.leases()]


@contextmanager
def opened_at(repo: Repository, ref: str) -> Iterator[Reader]:
    """A reader that has read something."""
    reader = repo.at(ref)
    reader.get("a")
    yield reader


OPENINGS = {"lease": Repository.lease, "at": opened_at}


@pytest.fixture
def commit(repo: Repository, main: Branch) -> str:
    main.put("a", b"x")
    return main.commit("one").id


def test_opening_a_commit_for_reading_takes_a_lease(
    repo: Repository, commit: str, clock: FakeClock
) -> None:
    with repo.lease("main") as reader:
        assert reader.ref == commit
        assert reader.get("a") == b"x"
        [(lease, valid)] = repo.leases()
        assert (lease.snapshot, lease.length, lease.refreshed_at) == (commit, 2 * HOUR, clock.now())
        assert valid
    assert repo.leases() == []


def test_an_instance_has_one_lease_for_a_commit(
    backend: Backend, repo: Repository, commit: str
) -> None:
    with repo.lease(commit) as first, repo.lease("main") as second:
        assert len(repo.leases()) == 1
        with backend.open().repository("sales").lease("main"):
            assert len(repo.leases()) == 2
        assert len(repo.leases()) == 1
        assert first.get("a") == second.get("a") == b"x"
    assert repo.leases() == []


def test_it_is_held_until_the_last_use_ends(repo: Repository, commit: str) -> None:
    outer = repo.lease(commit)
    outer.__enter__()
    with repo.lease(commit):
        outer.__exit__(None, None, None)
        assert len(repo.leases()) == 1
    assert repo.leases() == []


def test_a_lease_can_be_renewed_until_it_lapses(
    repo: Repository, commit: str, clock: FakeClock
) -> None:
    lease = repo.take_lease("main", holder="job 7", length=HOUR)
    clock.advance(HOUR - timedelta(seconds=1))
    assert repo.renew_lease(lease.id).refreshed_at == clock.now()
    clock.advance(HOUR)
    assert repo.leases()[0][1] is False
    with pytest.raises(LeaseLapsed, match="cannot be renewed"):
        repo.renew_lease(lease.id)
    repo.release_lease(lease.id)
    with pytest.raises(LeaseLapsed):
        repo.renew_lease(lease.id)
    with pytest.raises(NotFound, match="no lease"):
        repo.release_lease(lease.id)


@pytest.mark.parametrize("state", [CommitState.PROVISIONAL, CommitState.CONDEMNED])
def test_a_lease_on_a_condemned_commit_is_neither_taken_nor_renewed(
    repo: Repository, commit: str, state: CommitState
) -> None:
    lease = repo.take_lease("main", holder="job 7", length=HOUR)
    raw.condemn(repo, commit, state)
    with pytest.raises(TransactionFailed, match="run-7"):
        repo.renew_lease(lease.id)
    with pytest.raises(Gone, match="run-7"):
        repo.take_lease(commit, holder="job 8", length=HOUR)
    with pytest.raises(Gone), repo.lease(commit):
        pass


def test_a_newer_lease_of_the_same_holder_takes_the_place_of_the_older(
    repo: Repository, commit: str, clock: FakeClock
) -> None:
    old = repo.take_lease(commit, holder="job 7", length=HOUR)
    clock.advance(3 * HOUR)
    new = repo.take_lease(commit, holder="job 7", length=2 * HOUR)
    assert [lease for lease, _ in repo.leases()] == [new]
    with pytest.raises(LeaseLapsed):
        repo.renew_lease(old.id)


def test_the_background_renews(
    repo: Repository, commit: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = repo._leases
    book.times = LeaseTimes(refresh=timedelta(milliseconds=20))
    renewed = threading.Event()
    renew = book.renew

    def noticed() -> None:
        renew()
        renewed.set()

    monkeypatch.setattr(book, "renew", noticed)
    with repo.lease(commit) as reader:
        clock.advance(HOUR)
        assert renewed.wait(20)
        clock.advance(HOUR)
        assert reader.get("a") == b"x"


def test_a_renewed_holder_goes_on_for_long(repo: Repository, commit: str, clock: FakeClock) -> None:
    with repo.lease(commit) as reader:
        for _ in range(5):
            clock.advance(HOUR)
            repo._leases.renew()
            assert reader.get("a") == b"x"
        assert repo.leases()[0][1]


@pytest.mark.parametrize("opening", OPENINGS)
@pytest.mark.parametrize("read", ["get", "stat", "list", "stream"])
def test_a_holder_that_could_not_renew_stops_before_it_may_be_thought_dead(
    repo: Repository,
    commit: str,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    read: str,
    opening: str,
) -> None:
    def away(*_: object) -> None:
        raise DatabaseUnavailable("the database is away")

    times = LeaseTimes()
    with OPENINGS[opening](repo, commit) as reader:

        def use() -> object:
            return (
                list(getattr(reader, read)("a"))
                if read == "stream"
                else (getattr(reader, read)("a"))
            )

        with monkeypatch.context() as patch:
            patch.setattr(leasing, "renew", away)
            clock.advance(times.valid - times.budget - timedelta(seconds=1))
            repo._leases.renew()
            use()
            clock.advance(seconds=1)
            with pytest.raises(LeaseLapsed, match="could not be renewed in time"):
                use()
        assert repo.leases()[0][1], "the collector still believes it"
        repo._leases.renew()
        use()


def test_a_holder_whose_lease_is_lost_stops_at_once(
    repo: Repository, commit: str, clock: FakeClock
) -> None:
    with repo.lease(commit) as reader:
        clock.advance(2 * HOUR)
        repo._leases.renew()
        with pytest.raises(LeaseLapsed, match="lapsed"):
            reader.get("a")
        with repo.lease(commit) as again:
            assert again.get("a") == b"x"


def test_a_mark_that_is_taken_back_does_not_end_a_lease(repo: Repository, commit: str) -> None:
    with repo.lease(commit) as reader:
        raw.condemn(repo, commit, CommitState.PROVISIONAL)
        repo._leases.renew()
        raw.condemn(repo, commit, CommitState.LIVE)
        repo._leases.renew()
        assert reader.get("a") == b"x"
        raw.condemn(repo, commit, CommitState.CONDEMNED)
        repo._leases.renew()
        with pytest.raises(TransactionFailed, match="is being collected"):
            reader.get("a")


def test_a_stream_stops_in_the_middle(
    repo: Repository, main: Branch, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    main.put("a", b"x")
    main.commit("one")
    storage = repo._workspace.storage
    monkeypatch.setattr(storage, "stream", lambda _: iter([b"1", b"2", b"3"]))
    with repo.lease("main") as reader:
        pieces = reader.stream("a")
        assert next(pieces) == b"1"
        clock.advance(2 * HOUR)
        with pytest.raises(LeaseLapsed):
            next(pieces)


def test_times_that_cannot_work_are_refused() -> None:
    with pytest.raises(InvalidInput, match="refresh"):
        LeaseTimes(refresh=timedelta(minutes=110))
    with pytest.raises(InvalidInput):
        LeaseTimes(refresh=timedelta(0))


@pytest.mark.parametrize(
    ("holder", "length"), [("", HOUR), ("job", timedelta(0)), ("job", timedelta(days=99999))]
)
def test_bad_leases_are_refused(
    repo: Repository, commit: str, holder: str, length: timedelta
) -> None:
    with pytest.raises(ReclaimError):
        repo.take_lease(commit, holder=holder, length=length)


def test_a_lease_that_cannot_be_given_back_lapses_by_itself(
    catalog: Catalog, repo: Repository, commit: str, clock: FakeClock
) -> None:
    with repo.lease(commit):
        repo.release_lease(repo.leases()[0][0].id)
    assert repo.leases() == []
    assert isinstance(catalog._leases, Leases)


# Opening by ``at``


@pytest.fixture
def refs(repo: Repository, commit: str) -> dict[str, str]:
    """Ways to name the commit other than by its branch."""
    repo.create_tag("v1", commit)
    return {"tag": "v1", "id": commit, "prefix": commit[:8], "expression": "main~0"}


@pytest.mark.parametrize("kind", ["tag", "id", "prefix", "expression"])
@pytest.mark.parametrize("read", ["get", "stat", "exists", "list", "stream", "entries"])
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


def test_the_collector_leaves_a_commit_alone_that_is_being_read(
    catalog: Catalog, repo: Repository, main: Branch, commit: str
) -> None:
    reader = repo.at(commit)
    reader.stat("a")
    main.reset_to(f"{commit}~1")
    collecting = catalog.collecting("sales")
    with collecting.lock("run-7"):
        assert collecting.mark({commit: "expired"}) == 0
        assert reader.get("a") == b"x"
        del reader
        assert eventually(lambda: repo.leases() == [])
        assert collecting.mark({commit: "expired"}) == 1


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


# Two commits at once


@pytest.fixture
def second(main: Branch, commit: str) -> str:
    for number in range(3):
        main.put(f"b{number}", b"y")
    return main.commit("two").id


@pytest.mark.parametrize("after", ["main", "main~0"])
def test_a_diff_holds_both_commits_until_it_ends(
    repo: Repository, commit: str, second: str, after: str
) -> None:
    changes = repo.diff(commit, after)
    next(changes)
    assert sorted(held(repo)) == sorted([commit, second])
    assert len(list(changes)) == 2
    assert eventually(lambda: repo.leases() == [])


def test_a_diff_that_is_dropped_holds_nothing(repo: Repository, commit: str, second: str) -> None:
    unused, begun = repo.diff(commit, second), repo.diff(commit, second)
    next(begun)
    del unused
    assert sorted(held(repo)) == sorted([commit, second])
    del begun
    assert eventually(lambda: repo.leases() == [])


def test_a_diff_stops_before_it_may_be_thought_dead(
    repo: Repository, commit: str, second: str, clock: FakeClock
) -> None:
    changes = repo.diff(commit, second)
    next(changes)
    clock.advance(2 * HOUR)
    with pytest.raises(LeaseLapsed):
        next(changes)


# Commands


@pytest.mark.parametrize(
    "call",
    [
        "ls sales/{commit}",
        "ls -r sales/v1",
        "ls --limit 1 sales/main~1",
        "get sales/{commit}/a -",
        "get -r sales/{commit} {folder}",
        "get -r sales/main {folder}",
        "diff sales/{commit} main",
        "cp -r sales/{commit} sales/main/copied",
    ],
)
def test_a_command_leaves_no_lease(
    backend: Backend,
    repo: Repository,
    commit: str,
    second: str,
    call: str,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    repo.create_tag("v1", commit)
    taken: list[str] = []
    take = leasing.take

    def noticed(*args: Any, **options: Any) -> Any:
        taken.append(args[1])
        return take(*args, **options)

    monkeypatch.setattr(leasing, "take", noticed)
    # Nothing is garbage before the command ends, so that closing has to see to it.
    monkeypatch.setattr(leasing.Use, "close", lambda _: None)
    folder = tmp_path_factory.mktemp("got")
    words = call.format(commit=commit, folder=folder).split()
    assert command(["--catalog", backend.location, *words]) == 0
    assert taken, "a lease was taken"
    assert repo.leases() == []


@pytest.mark.parametrize("call", ["ls sales/main", "ls -r sales/main", "get sales/main/a -"])
def test_reading_a_branch_does_not_write_to_the_database(
    backend: Backend, repo: Repository, commit: str, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: Database) -> None:
        raise AssertionError("a write")

    monkeypatch.setattr(Database, "write", refused)
    assert command(["--catalog", backend.location, *call.split()]) == 0
