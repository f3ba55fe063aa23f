"""Isolation: the races that weaker transactions would lose, run on real databases.

Each race is arranged with two instances whose threads meet inside their transactions.
``test_weaker_isolation_is_noticed`` weakens a rule and sees the race lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Select, select

from reclaim.catalog import Branch, Repository
from reclaim.catalog.database import transactions
from reclaim.catalog.database.schema import CommitState, LedgerState, branches
from reclaim.catalog.refs import commits
from reclaim.catalog.staging import ledger, staged_rows
from reclaim.errors import NothingToCommit, ReclaimError, TransactionFailed
from reclaim.testing import FakeClock
from tests.catalog import raw
from tests.conftest import Backend, make_backend
from tests.support.expiring import delete_refs

WAIT = 0.3


def heads_and_tokens(connection: Connection) -> tuple[Any, ...]:
    row = connection.execute(select(branches)).one()
    return row.head, row.token


def test_a_snapshot_does_not_see_half_of_a_commit(
    backend: Backend, repo: Repository, main: Branch
) -> None:
    other = backend.open().repository("sales").branch("main")
    main.put("a", b"x")
    with repo._workspace.database.read() as connection:
        before = heads_and_tokens(connection)
        staged = list(staged_rows.rows(connection, [before[1]]))
        other.commit("meanwhile")
        other.put("b", b"y")
        assert heads_and_tokens(connection) == before
        assert list(staged_rows.rows(connection, [before[1]])) == staged
        assert len(list(commits.scan(connection, repo.uid))) == 1
    with repo._workspace.database.read() as connection:
        assert heads_and_tokens(connection) != before


def race(first: Callable[[], object], second: Callable[[], object]) -> list[object]:
    """Run two things at once; returns what each returned or raised."""

    def outcome(work: Callable[[], object]) -> object:
        try:
            return work()
        except ReclaimError as error:
            return error

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(outcome, (first, second)))


def paused(
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    name: str,
    when: Callable[..., bool] = lambda *_: True,
) -> threading.Event:
    """Stop a function after it has run, the first time ``when`` says so, for a while."""
    reached = threading.Event()
    work = getattr(module, name)

    def slow(*args: Any, **kwargs: Any) -> Any:
        result = work(*args, **kwargs)
        if not reached.is_set() and when(*args):
            reached.set()
            threading.Event().wait(WAIT)
        return result

    monkeypatch.setattr(module, name, slow)
    return reached


def condemn_if_dead(repo: Repository, commit_id: str) -> bool:
    """A collector's condemn: marks the commit in a transaction that first looks for refs."""
    with repo._workspace.database.write() as connection:
        raw.mark(connection, commit_id, CommitState.PROVISIONAL)
        heads = connection.execute(select(branches.c.head)).scalars()
        if commit_id in set(heads):
            connection.rollback()
            return False
    return True


@pytest.mark.parametrize("collector_first", [True, False])
def test_create_branch_and_condemn_cannot_both_succeed(
    backend: Backend,
    repo: Repository,
    main: Branch,
    monkeypatch: pytest.MonkeyPatch,
    collector_first: bool,
) -> None:
    other = repo.create_branch("other")
    other.put("a", b"x")
    dead = other.commit("one").id
    repo.delete_branch("other")
    elsewhere = backend.open().repository("sales")
    hook = (raw, "mark") if collector_first else (commits, "hold")
    reached = paused(monkeypatch, *hook)

    def collect() -> bool:
        if not collector_first:
            reached.wait(20)
        return condemn_if_dead(repo, dead)

    def revive() -> bool:
        if collector_first:
            reached.wait(20)
        elsewhere.create_branch("again", dead)
        return True

    collected, revived = race(collect, revive)
    assert [collected is True, revived is True].count(True) == 1
    assert (collected is True) == collector_first
    if revived is True:
        assert repo.at("again").get("a") == b"x"
    else:
        assert isinstance(revived, ReclaimError)


def test_a_commit_and_condemn_of_its_parent_cannot_both_succeed(
    backend: Backend, repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    main.put("a", b"x")
    parent = repo.commit("main").id
    reached = paused(monkeypatch, commits, "hold")

    def condemn() -> str:
        reached.wait(20)
        raw.condemn(repo, parent)
        with repo._workspace.database.read() as connection:
            return str(connection.execute(select(branches.c.head)).scalar())

    committed, head_seen = race(lambda: main.commit("one"), condemn)
    # The condemner had to wait for the commit, and sees it.
    assert not isinstance(committed, ReclaimError)
    assert head_seen == committed.id  # type: ignore[attr-defined]


def test_two_removals_of_the_last_two_references_condemn_once(
    backend: Backend, repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sees the other's row unless the ledger row is locked before counting."""
    address = main.put("a", b"x").address
    main.copy("a", "b")
    other = backend.open().repository("sales").branch("main")
    before, after = threading.Barrier(2), threading.Barrier(2)
    release = ledger.release

    def together(*args: Any) -> None:
        if backend.name == "server":
            # On SQLite only one write transaction exists at a time.
            meet(before, 30)
        release(*args)
        if backend.name == "server":
            # Neither commits before both have counted. With the lock that cannot be: the
            # second is still waiting for it, and the first goes on alone.
            meet(after, 1)

    monkeypatch.setattr(ledger, "release", together)
    outcomes = race(lambda: main.delete("a"), lambda: other.delete("b"))
    assert outcomes == [None, None]
    assert raw.ledger_states(repo) == {address: LedgerState.CONDEMNED}


def test_an_expiration_does_not_drop_what_is_just_being_staged(
    backend: Backend, repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who stages locks the open token, and not the branch."""
    repo.create_branch("old")
    writer = backend.open().repository("sales").branch("old")
    reached = paused(monkeypatch, staged_rows, "write")

    def expire() -> object:
        return delete_refs(repo, "old", decided=lambda: reached.wait(20))

    staged, expired = race(lambda: writer.put("a", b"x"), expire)
    assert not isinstance(staged, ReclaimError)
    assert expired is None or isinstance(expired, ReclaimError)
    assert writer.get("a") == b"x"


def meet(barrier: threading.Barrier, seconds: float) -> None:
    # A transaction that runs again comes alone, to a barrier that is broken by then.
    with suppress(threading.BrokenBarrierError):
        barrier.wait(seconds)


@pytest.mark.parametrize("copy_first", [True, False])
def test_a_copy_and_a_removal_end_with_the_right_state(
    backend: Backend,
    repo: Repository,
    main: Branch,
    monkeypatch: pytest.MonkeyPatch,
    copy_first: bool,
) -> None:
    """Either the copy holds the address, or it is condemned and the copy failed."""
    address = main.put("a", b"x").address
    other = backend.open().repository("sales").branch("main")
    if copy_first:
        reached = paused(monkeypatch, ledger, "hold")
    else:
        reached = paused(monkeypatch, ledger, "release", lambda _, released, *__: bool(released))

    def copy() -> object:
        if not copy_first:
            reached.wait(20)
        return main.copy("a", "b")

    def remove() -> object:
        if copy_first:
            reached.wait(20)
        other.delete("a")
        return None

    copied, removed = race(copy, remove)
    assert removed is None
    state = raw.ledger_states(repo)[address]
    if copy_first:
        assert not isinstance(copied, ReclaimError)
        assert state == LedgerState.LIVE
        assert main.get("b") == b"x"
    else:
        assert isinstance(copied, ReclaimError)
        assert state == LedgerState.CONDEMNED
        assert not main.exists("b")


@pytest.mark.parametrize("committed", [True, False])
def test_a_move_and_a_put_of_its_source_come_one_after_the_other(
    backend: Backend,
    repo: Repository,
    main: Branch,
    monkeypatch: pytest.MonkeyPatch,
    committed: bool,
) -> None:
    """The put is acknowledged, so its bytes are at one of the two paths afterwards."""
    main.put("p", b"old")
    if committed:
        main.commit("one")
    other = backend.open().repository("sales").branch("main")
    reached = paused(monkeypatch, ledger, "hold")

    def put() -> object:
        reached.wait(20)
        return other.put("p", b"new")

    moved, done = race(lambda: main.move("p", "q"), put)
    assert not isinstance(moved, ReclaimError)
    assert not isinstance(done, ReclaimError)
    shown = {entry.path: main.get(entry.path) for entry in main.entries()}
    assert shown in ({"q": b"new"}, {"p": b"new", "q": b"old"})
    live = {entry.address for entry in main.entries()}
    states = raw.ledger_states(repo)
    assert not any(states.get(address) == LedgerState.CONDEMNED for address in live)


def test_a_reset_to_the_branch_itself_does_not_undo_a_commit(
    backend: Backend, repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    main.put("a", b"x")
    other = backend.open().repository("sales").branch("main")
    reached = paused(monkeypatch, commits, "resolve")

    def commit() -> object:
        reached.wait(20)
        return other.commit("acknowledged")

    _, landed = race(lambda: main.reset_to("main"), commit)
    if not isinstance(landed, ReclaimError):
        assert repo.log()[0].message == "acknowledged"


def test_many_writers_on_one_branch_lose_nothing(backend: Backend, repo: Repository) -> None:
    workers = 6 if backend.name == "server" else 3
    each = 8
    handles = [backend.open().repository("sales").branch("main") for _ in range(workers)]

    def work(number: int) -> list[str]:
        branch = handles[number]
        done = []
        for n in range(each):
            path = f"w{number}/{n}"
            branch.put(path, path.encode())
            branch.put("shared", path.encode())
            if n % 3 == 2:
                branch.move(path, path + "-moved")
                path += "-moved"
            if n % 4 == 3:
                # Another's commit may have taken these changes with its own.
                with suppress(TransactionFailed, NothingToCommit):
                    branch.commit(f"{number} {n}")
            done.append(path)
        return done

    with ThreadPoolExecutor(workers) as pool:
        paths = {path for done in pool.map(work, range(workers)) for path in done}
    main = repo.branch("main")
    assert {entry.path for entry in main.entries()} == paths | {"shared"}
    for path in sorted(paths):
        assert main.get(path) == path.removesuffix("-moved").encode()
    if list(main.uncommitted()):
        main.commit("the rest")
    assert {entry.path for entry in repo.at(repo.commit("main").id).entries()} == paths | {"shared"}
    repo.clean()
    live = {entry.address for entry in main.entries()}
    states = raw.ledger_states(repo)
    assert not live & {a for a, state in states.items() if state == LedgerState.CONDEMNED}
    assert set(states.values()) <= {LedgerState.CONDEMNED}


Weaken = Callable[[pytest.MonkeyPatch], None]


def no_snapshot(patch: pytest.MonkeyPatch) -> None:
    """The drivers' defaults: READ COMMITTED on PostgreSQL, no BEGIN on SQLite."""
    patch.setattr(transactions, "SQLITE_READ", "SELECT 1")
    patch.setattr(transactions, "POSTGRESQL_READ", {"isolation_level": "READ COMMITTED"})


def no_write_transaction(patch: pytest.MonkeyPatch) -> None:
    """Every statement on its own, as SQLite does without a BEGIN."""
    patch.setattr(transactions, "SQLITE_WRITE", "SELECT 1")


def no_row_locks(patch: pytest.MonkeyPatch) -> None:
    """States are checked, but the rows are not held."""
    patch.setattr(Select, "with_for_update", lambda self, **_: self)


def snapshot(backend: Backend, repo: Repository, patch: pytest.MonkeyPatch) -> None:
    test_a_snapshot_does_not_see_half_of_a_commit(backend, repo, repo.branch("main"))


def revival(backend: Backend, repo: Repository, patch: pytest.MonkeyPatch) -> None:
    main = repo.branch("main")
    test_create_branch_and_condemn_cannot_both_succeed(backend, repo, main, patch, False)


def removals(backend: Backend, repo: Repository, patch: pytest.MonkeyPatch) -> None:
    main = repo.branch("main")
    test_two_removals_of_the_last_two_references_condemn_once(backend, repo, main, patch)


def move_and_put(backend: Backend, repo: Repository, patch: pytest.MonkeyPatch) -> None:
    main = repo.branch("main")
    test_a_move_and_a_put_of_its_source_come_one_after_the_other(
        backend, repo, main, patch, committed=False
    )


def copy_and_removal(backend: Backend, repo: Repository, patch: pytest.MonkeyPatch) -> None:
    main = repo.branch("main")
    test_a_copy_and_a_removal_end_with_the_right_state(backend, repo, main, patch, True)


@pytest.mark.parametrize(
    ("on", "weaken", "guard"),
    [
        ("embedded", no_snapshot, snapshot),
        ("server", no_snapshot, snapshot),
        ("embedded", no_write_transaction, revival),
        ("server", no_row_locks, revival),
        ("server", no_row_locks, removals),
        ("server", no_row_locks, copy_and_removal),
        ("server", no_row_locks, move_and_put),
    ],
)
def test_weaker_isolation_is_noticed(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    clock: FakeClock,
    on: str,
    weaken: Weaken,
    guard: Callable[[Backend, Repository, pytest.MonkeyPatch], None],
) -> None:
    backend = make_backend(on, request, tmp_path, clock)
    repo = backend.init().create_repository("sales")
    with pytest.MonkeyPatch.context() as patch:
        weaken(patch)
        with pytest.raises((AssertionError, KeyError)):
            guard(backend, repo, patch)
    backend.close()
