"""``main@2026-10-01`` names the commit of that time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from reclaim.catalog import Branch, Repository
from reclaim.catalog.database.schema import CommitState
from reclaim.catalog.refs.moments import end_of
from reclaim.errors import Gone, InvalidInput, InvalidName, NotFound
from reclaim.testing import FakeClock
from tests.catalog.raw import condemn


@pytest.fixture
def days(repo: Repository, main: Branch, clock: FakeClock) -> list[str]:
    """The origin at midnight of the first of January 2026, and a commit at noon of each of the
    next three days, of which the last is a merge of a commit that is half an hour older."""
    made = [repo.commit("main").id]
    clock.advance(hours=12)
    for day in range(2):
        clock.advance(days=1)
        main.put("a", str(day).encode())
        made.append(main.commit(f"day {day}").id)
    side = repo.create_branch("side")
    clock.advance(hours=23, minutes=30)
    side.put("b", b"side")
    side_commit = side.commit("side")
    clock.advance(minutes=30)
    main.merge("side")
    return [*made, repo.commit("main").id, side_commit.id]


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("2026-01-01", 0),
        ("2026-01-02", 1),
        ("2026-01-02T11:59", 0),
        ("2026-01-02T12:00", 1),
        ("2026-01-02T12:00:00", 1),
        ("2026-01-02T12:00:00Z", 1),
        ("2026-01-02 12:00", 1),
        ("2026-01-02T14:00:00+02:00", 1),
        ("2026-01-02T13:59:59+02:00", 0),
        ("2026-01-03T23:59", 2),
        ("2026-01-04T11:45", 2),
        ("2026-01-04", 3),
        ("2099-12-31", 3),
    ],
)
def test_the_newest_commit_of_a_moment_or_before(
    repo: Repository, days: list[str], moment: str, number: int
) -> None:
    assert repo.commit(f"main@{moment}").id == days[number]


def test_it_goes_with_steps_and_with_any_ref(repo: Repository, days: list[str]) -> None:
    assert repo.commit("main@2026-01-03~1").id == days[1]
    assert repo.commit("main@2026-01-04^2").id == days[4]
    repo.create_tag("v1", "main@2026-01-03")
    assert repo.commit("v1@2026-01-02").id == days[1]
    assert repo.commit(f"{days[2][:8]}@2026-01-02").id == days[1]
    assert repo.commit(f"{days[4]}@2026-01-04T11:30").id == days[4]


def test_it_reads_what_was_there_then(repo: Repository, main: Branch, days: list[str]) -> None:
    main.put("a", b"staged")
    assert repo.at("main@2026-01-02").get("a") == b"0"
    assert [commit.id for commit in repo.log("main@2026-01-02")] == [days[1], days[0]]
    assert repo.create_branch("then", "main@2026-01-02").get("a") == b"0"
    assert [change.path for change in repo.diff("main@2026-01-02", "main@2026-01-04")] == ["a", "b"]


def test_before_the_first_commit(repo: Repository, days: list[str]) -> None:
    with pytest.raises(NotFound, match="main has no commit at or before 2025-12-31") as error:
        repo.commit("main@2025-12-31")
    assert days[0][:12] in str(error.value.hint)


@pytest.mark.parametrize(
    "moment", ["", "yesterday", "2026-13-01", "2026-10", "9999-12-31", "2026-01-02T25:00", "1"]
)
def test_what_is_no_time(repo: Repository, days: list[str], moment: str) -> None:
    with pytest.raises(InvalidInput, match="is not a time"):
        repo.commit(f"main@{moment}")
    with pytest.raises(InvalidInput, match="is not a ref"):
        repo.commit("main@2026-01-02@2026-01-02")


def test_no_name_can_be_taken_for_it(repo: Repository, days: list[str]) -> None:
    with pytest.raises(InvalidName):
        repo.create_branch("main@2026-01-02")


def test_a_commit_that_was_collected(repo: Repository, days: list[str]) -> None:
    condemn(repo, days[1], CommitState.PROVISIONAL)
    with pytest.raises(Gone, match="is being removed by run run-7"):
        repo.commit("main@2026-01-02")


def test_a_moment_is_as_long_as_it_is_written() -> None:
    assert end_of("2026-10-01") == datetime(2026, 10, 2, tzinfo=UTC)
    assert end_of("2026-10-01T12:00") == datetime(2026, 10, 1, 12, 1, tzinfo=UTC)
    assert end_of("2026-10-01T12:00:05") == datetime(2026, 10, 1, 12, 0, 6, tzinfo=UTC)
    assert end_of("2026-10-01T12:00:05.5") == datetime(2026, 10, 1, 12, 0, 5, 500_001, tzinfo=UTC)
