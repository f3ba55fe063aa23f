"""Diffs and commands hold what they read, and leave no lease."""

from __future__ import annotations

from typing import Any

import pytest

from reclaim.catalog import Branch, Repository
from reclaim.catalog.database.transactions import Database
from reclaim.catalog.refs import leases as leasing
from reclaim.cli.main import main as command
from reclaim.errors import LeaseLapsed
from reclaim.testing import FakeClock
from tests.catalog.leased import HOUR, eventually, held
from tests.conftest import Backend

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
    monkeypatch.setattr(leasing.LeaseHandle, "close", lambda _: None)
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
