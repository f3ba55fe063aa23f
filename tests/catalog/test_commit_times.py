"""When a commit was written, and clocks that do not agree."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reclaim.catalog import Branch, Repository
from reclaim.errors import ClockSkew
from reclaim.storage import Payload, Storage
from reclaim.testing import ClockedStorage, FakeClock, StorageWrapper
from tests.catalog import raw
from tests.conftest import Backend


def test_commits_are_written_after_their_parents_and_entries(
    repo: Repository, main: Branch, clock: FakeClock
) -> None:
    main.put("a", b"x")
    first = main.commit("one")
    main.put("a", b"y")
    second = main.commit("two")
    assert first.written_at == main.stat("a").created_at + timedelta(microseconds=1)
    assert second.written_at == first.written_at + timedelta(microseconds=1)
    clock.advance(minutes=-3)
    main.put("a", b"z")
    third = main.commit("three")
    assert third.written_at == second.written_at + timedelta(microseconds=1)
    clock.advance(days=1)
    assert main.commit("four", allow_empty=True).written_at == clock.now()


def test_a_parent_far_in_the_future_is_refused(
    repo: Repository, main: Branch, clock: FakeClock
) -> None:
    clock.advance(minutes=10)
    main.put("a", b"x")
    head = main.commit("one").id
    clock.advance(minutes=-10)
    main.put("a", b"y")
    with pytest.raises(ClockSkew, match="in the future"):
        main.commit("two")
    assert repo.commit("main").id == head
    assert main.get("a") == b"y"
    clock.advance(minutes=6)
    main.commit("two")


@pytest.mark.parametrize("skew", [timedelta(minutes=-6), timedelta(minutes=6)])
def test_a_clock_that_differs_from_the_storages_refuses_the_commit(
    backend: Backend, skew: timedelta
) -> None:
    backend.skew = skew
    repo = backend.init().create_repository("sales")
    main = repo.branch("main")
    main.put("a", b"x")
    before = {a for a in raw.objects(repo) if "/meta/" in a}
    with pytest.raises(ClockSkew, match="that of the storage"):
        main.commit("one")
    assert len(list(repo.log())) == 1
    assert main.get("a") == b"x"
    left = {a for a in raw.objects(repo) if "/meta/" in a} - before
    assert left, "what was written is left to the collector"
    storage = repo._workspace.storage
    assert isinstance(storage, ClockedStorage)
    storage.skew = timedelta(minutes=4)
    assert main.commit("one").metarange not in left


class _Stalled(StorageWrapper):
    """A storage in which each write takes twenty minutes, before or after it counts."""

    def __init__(self, inner: Storage, clock: FakeClock, *, before: bool) -> None:
        super().__init__(inner)
        self._clock = clock
        self._before = before

    def put(self, address: str, data: Payload, *, create: bool = False) -> None:
        if self._before:
            self._clock.advance(minutes=20)
        super().put(address, data, create=create)
        if not self._before:
            self._clock.advance(minutes=20)


@pytest.mark.parametrize("before", [True, False])
def test_a_commit_that_stalls_is_no_difference_of_clocks(
    backend: Backend, repo: Repository, main: Branch, clock: FakeClock, before: bool
) -> None:
    main.put("a", b"x")
    stalled = backend.open(lambda storage: _Stalled(storage, clock, before=before))
    written = stalled.repository(repo.name).branch("main").commit("one")
    assert repo.commit("main").id == written.id
    assert written.written_at == clock.now()


def test_the_clocks_are_compared_when_a_commit_empties_the_tree(
    repo: Repository, main: Branch
) -> None:
    main.put("a", b"x")
    main.commit("one")
    main.delete("a")
    storage = repo._workspace.storage
    assert isinstance(storage, ClockedStorage)
    storage.skew = timedelta(hours=3)
    with pytest.raises(ClockSkew):
        main.commit("empty")
    storage.skew = timedelta(0)
    assert list(repo.at(main.commit("empty").id).entries()) == []


def test_a_revert_is_written_after_what_it_takes_entries_from(
    repo: Repository, main: Branch, clock: FakeClock
) -> None:
    clock.advance(minutes=4)
    other = repo.create_branch("other")
    other.put("a", b"x")
    first = other.commit("one")
    other.delete("a")
    other.commit("two")
    clock.advance(minutes=-4)
    reverted = main.revert("other")
    assert main.get("a") == b"x"
    assert reverted.written_at > first.written_at > main.stat("a").created_at
