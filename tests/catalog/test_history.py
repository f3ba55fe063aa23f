"""Commits, and the log of them."""

from __future__ import annotations

from typing import Any

import pytest

from reclaim.catalog import Branch, Repository
from reclaim.errors import NotFound, NothingToCommit
from reclaim.testing import FakeClock
from tests.catalog.saving import ADDED, REMOVED, kinds, save, seal, shown, stage

# Commit


def test_a_commit_says_who_when_and_why(repo: Repository, main: Branch, clock: FakeClock) -> None:
    origin = repo.commit("main")
    clock.advance(minutes=1)
    main.put("a", b"1")
    clock.advance(minutes=1)
    commit = main.commit("Première", committer="ann", metadata={"run": "7", "é": "ü"})
    assert commit == repo.commit("main") == repo.commit(commit.id)
    assert commit.parents == (origin.id,)
    assert (commit.message, commit.committer) == ("Première", "ann")
    assert commit.metadata == {"run": "7", "é": "ü"}
    assert commit.written_at == clock.now()
    assert not commit.marked


def test_a_commit_empties_the_staging(main: Branch) -> None:
    stage(main, {"a": "1"})
    assert kinds(main.uncommitted()) == {"a": ADDED}
    main.commit("first")
    assert list(main.uncommitted()) == []
    assert shown(main) == {"a": "1"}


def test_nothing_to_commit_is_refused_unless_allowed(repo: Repository, main: Branch) -> None:
    before = repo.commit("main")
    with pytest.raises(NothingToCommit, match="nothing to commit on main"):
        main.commit("empty")
    main.put("a", b"1")
    main.delete("a")
    with pytest.raises(NothingToCommit):
        main.commit("still empty")
    assert repo.commit("main") == before
    empty = main.commit("empty", allow_empty=True)
    assert empty.parents == (before.id,)
    assert empty.metarange == before.metarange
    with pytest.raises(NotFound, match="no branch 'nope'"):
        repo.branch("nope").commit("x")


def test_commits_are_in_the_order_of_time_even_if_the_clock_stands_still(
    repo: Repository, main: Branch
) -> None:
    made = [save(main, {"a": str(n)}) for n in range(3)]
    times = [commit.written_at for commit in made]
    assert times == sorted(set(times))
    assert list(repo.log())[:3] == made[::-1]


def test_an_entry_is_older_than_the_commit_that_brings_it(main: Branch, clock: FakeClock) -> None:
    clock.advance(minutes=1)
    entry = main.put("a", b"1")
    assert entry.created_at == clock.now()
    assert main.commit("at the same instant").written_at > entry.created_at


def test_a_commit_takes_what_a_crashed_one_left(repo: Repository, main: Branch) -> None:
    stage(main, {"a": "1", "b": "1"})
    seal(repo)
    stage(main, {"b": "2"})
    seal(repo)
    commit = main.commit("both")
    assert shown(repo.at(commit.id)) == {"a": "1", "b": "2"}
    assert list(main.uncommitted()) == []


def test_a_deleted_tree_is_an_empty_tree(repo: Repository, main: Branch) -> None:
    first = save(main, {"a": "1", "b": "1"})
    empty = save(main, {"a": None, "b": None})
    assert shown(main) == {}
    assert kinds(repo.diff(first.id, empty.id)) == {"a": REMOVED, "b": REMOVED}
    save(main, {"c": "1"})
    assert shown(main) == {"c": "1"}


# Log


def test_the_log_shows_children_before_parents(
    repo: Repository, main: Branch, clock: FakeClock
) -> None:
    origin = repo.commit("main")
    one = save(main, {"a": "1"})
    side = repo.create_branch("side")
    left = save(main, {"b": "1"})
    clock.advance(seconds=1)
    right = save(side, {"c": "1"})
    merged = main.merge("side")
    last = save(main, {"d": "1"})
    assert list(repo.log()) == [last, merged, right, left, one, origin]
    assert list(repo.log("main", first_parent=True)) == [last, merged, left, one, origin]
    assert list(repo.log("side")) == [right, one, origin]
    assert list(repo.log("main~1^2")) == [right, one, origin]
    assert list(repo.log(one.id[:8])) == [one, origin]
    with pytest.raises(NotFound):
        list(repo.log("nowhere"))


def test_the_log_of_one_branch_does_not_show_others(repo: Repository, main: Branch) -> None:
    other = repo.create_branch("other")
    for n in range(3):
        save(other, {"a": str(n)})
        save(main, {"b": str(n)})
    repo.delete_branch("other")
    assert len(list(repo.log("main"))) == 4


def test_log_of_a_path(repo: Repository, clock: FakeClock) -> None:
    main = repo.branch("main")

    def commit(message: str, **paths: str | None) -> None:
        for path, text in paths.items():
            name = path.replace("_", "/")
            if text is None:
                main.delete(name)
            else:
                main.put(name, text.encode())
        # Commits of the same time have no order.
        clock.advance(seconds=1)
        main.commit(message)

    commit("one", a="1", a_b="1", ab="1")
    commit("two", b="2")
    commit("three", a_b="3")
    commit("four", a=None)
    repo.create_branch("side", "main~2").put("a/c", b"side")
    clock.advance(seconds=1)
    repo.branch("side").commit("side")
    clock.advance(seconds=1)
    main.merge("side", message="merge")
    commit("five", ab="5")

    def log(path: str, **how: Any) -> list[str]:
        return [one.message for one in repo.log("main", path=path, **how)]

    assert log("a") == ["four", "one"]
    assert log("a/") == ["merge", "side", "three", "one"]
    assert log("a/", first_parent=True) == ["merge", "three", "one"]
    assert log("a/b") == ["three", "one"]
    assert log("a/c") == ["merge", "side"]
    assert log("ab") == ["five", "one"]
    assert log("b") == ["two"]
    assert log("none") == log("none/") == []
    assert log("a/", limit=2) == ["merge", "side"]
