"""What other instances do to a dead past, and what must be gone after."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from reclaim.catalog import Repository
from reclaim.errors import Gone, TransactionFailed
from tests.collect.helpers.world import Past, World

Change = Callable[[Repository, Past], object]


def no_change(repo: Repository, past: Past) -> None:
    pass


def new_commits(repo: Repository, past: Past) -> None:
    for number in range(3):
        repo.branch("main").put(f"b/{number}", b"new")
        repo.branch("main").commit("new")


def a_branch(repo: Repository, past: Past) -> None:
    repo.create_branch("back", past.second)


def a_branch_at_the_older(repo: Repository, past: Past) -> None:
    repo.create_branch("back", past.first)


def a_tag(repo: Repository, past: Past) -> None:
    repo.create_tag("v1", past.first)


def a_reset(repo: Repository, past: Past) -> None:
    repo.branch("work").reset_to(past.second)


def a_merge(repo: Repository, past: Past) -> None:
    repo.branch("main").merge(past.second)


def a_lease(repo: Repository, past: Past) -> None:
    repo.take_lease(past.first, holder="reader", length=timedelta(hours=2))


def copies(repo: Repository, past: Past) -> None:
    repo.branch("work").copy("x", "x", source_ref=past.second)
    repo.branch("work").copy("y", "z", source_ref=past.second)
    repo.branch("work").commit("copied")
    repo.branch("main").copy("a", "kept/a", source_ref=past.first)


def a_branch_with_a_commit(repo: Repository, past: Past) -> None:
    back = repo.create_branch("back", past.second)
    back.put("b/1", b"again")
    back.commit("again")


def a_branch_with_staged_changes(repo: Repository, past: Past) -> None:
    back = repo.create_branch("back", past.first)
    back.move("x", "moved")
    back.delete("a")


def a_branch_that_goes_again(repo: Repository, past: Past) -> None:
    a_branch_with_a_commit(repo, past)
    repo.delete_branch("back")


def an_empty_commit_that_goes_again(repo: Repository, past: Past) -> None:
    back = repo.create_branch("back", past.second)
    back.commit("the same again", allow_empty=True)
    repo.delete_branch("back")


CHANGES: dict[str, tuple[Change, tuple[str, ...]]] = {
    # What is done, and which dead commits come back by it.
    "nothing": (no_change, ()),
    "new commits": (new_commits, ()),
    "a branch": (a_branch, ("first", "second")),
    "a branch at the older": (a_branch_at_the_older, ("first",)),
    "a tag": (a_tag, ("first",)),
    "a reset": (a_reset, ("first", "second")),
    "a merge": (a_merge, ("first", "second")),
    "a lease": (a_lease, ("first",)),
    "copies": (copies, ()),
    "a branch with a commit": (a_branch_with_a_commit, ("first", "second")),
    "a branch with staged changes": (a_branch_with_staged_changes, ("first",)),
    "a branch that goes again": (a_branch_that_goes_again, ()),
    "an empty commit that goes again": (an_empty_commit_that_goes_again, ()),
}


def assert_gone(world: World, commit: str) -> None:
    """Nobody can name a commit that was collected, and its readers learn why."""
    repo = world.other()
    with pytest.raises(Gone, match="removed by run"):
        repo.at(commit).get("a")
    for attempt in (
        lambda: repo.create_branch("again", commit),
        lambda: repo.create_tag("again", commit),
        lambda: repo.branch("clean").reset_to(commit),
        lambda: repo.branch("clean").merge(commit),
        lambda: repo.branch("work").copy("a", "copied", source_ref=commit),
        lambda: repo.take_lease(commit, holder="late", length=timedelta(hours=1)),
    ):
        with pytest.raises((Gone, TransactionFailed)):
            attempt()


def ranges_of(world: World, commit: str) -> list[Any]:
    repo = world.other()
    return list(repo._workspace.containers.tree(repo.commit(commit).metarange).ranges)


def assert_gone_commit(world: World, commit: str) -> None:
    with pytest.raises(Gone):
        world.other().commit(commit)
