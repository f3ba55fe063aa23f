"""Leases: taken, renewed, lapsed, refused, and a holder that stops itself in time."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from reclaim.catalog import Branch, Catalog, Repository
from reclaim.catalog.database.schema import CommitState
from reclaim.catalog.refs import leases as leasing
from reclaim.catalog.refs.leases import CommitLeases, LeaseTimes
from reclaim.errors import (
    DatabaseUnavailable,
    Gone,
    InvalidInput,
    LeaseLapsed,
    NotFound,
    TransactionFailed,
)
from reclaim.testing import FakeClock
from tests.catalog import raw
from tests.catalog.leased import HOUR, OPENINGS
from tests.conftest import Backend


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


@pytest.mark.parametrize("shorter", [HOUR, timedelta(minutes=1)])
def test_holding_again_never_shortens(
    repo: Repository, commit: str, clock: FakeClock, shorter: timedelta
) -> None:
    old = repo.take_lease(commit, holder="job 7", length=timedelta(days=3))
    clock.advance(HOUR)
    new = repo.take_lease(commit, holder="job 7", length=shorter)
    assert new.refreshed_at + new.length == old.refreshed_at + old.length
    assert [lease for lease, _ in repo.leases()] == [new]
    clock.advance(timedelta(days=2))
    assert [valid for _, valid in repo.leases()] == [True]
    longer = repo.take_lease(commit, holder="job 7", length=timedelta(days=4))
    assert longer.length == timedelta(days=4)


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
        with pytest.raises(TransactionFailed, match="is being removed"):
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
    ("holder", "length"),
    [("", HOUR), ("job", timedelta(0)), ("job", timedelta(days=30, seconds=1))],
)
def test_bad_leases_are_refused(
    repo: Repository, commit: str, holder: str, length: timedelta
) -> None:
    with pytest.raises(InvalidInput, match="a lease"):
        repo.take_lease(commit, holder=holder, length=length)


def test_a_lease_that_cannot_be_given_back_lapses_by_itself(
    catalog: Catalog, repo: Repository, commit: str, clock: FakeClock
) -> None:
    with repo.lease(commit):
        repo.release_lease(repo.leases()[0][0].id)
    assert repo.leases() == []
    assert isinstance(catalog._leases, CommitLeases)
