"""Reverts: what a commit changed is taken back."""

from __future__ import annotations

import pytest

from reclaim.catalog import Branch, Repository
from reclaim.errors import DirtyBranch, InvalidInput, MergeConflict, NothingToCommit
from tests.catalog.saving import mark, save, shown, stage


def test_a_revert_takes_back_what_a_commit_changed(
    repo: Repository, main: Branch, side: Branch
) -> None:
    undone = save(main, {"a": "1", "b": None, "d": "1"})
    last = save(main, {"c": "later"})
    reverted = main.revert(undone.id, committer="ann")
    assert shown(main) == {"a": "0", "b": "0", "c": "later"}
    assert reverted.parents == (last.id,)
    assert (reverted.message, reverted.committer) == (f"Revert {undone.id}", "ann")
    assert main.revert("main", message="Again").message == "Again"
    assert shown(main) == {"a": "1", "c": "later", "d": "1"}


def test_a_revert_of_a_merge_needs_a_parent(repo: Repository, main: Branch, side: Branch) -> None:
    save(main, {"a": "main"})
    save(side, {"b": "side"})
    merged = main.merge("side")
    with pytest.raises(InvalidInput, match="is a merge") as error:
        main.revert(merged.id)
    assert error.value.hint
    main.revert(merged.id, parent=1)
    assert shown(main) == {"a": "main", "b": "0", "c": "0"}
    main.reset_to(merged.id)
    main.revert(merged.id, parent=2)
    assert shown(main) == {"a": "0", "b": "side", "c": "0"}


def test_a_parent_that_a_merge_does_not_have_is_refused(
    repo: Repository, main: Branch, side: Branch
) -> None:
    save(side, {"b": "side"})
    merged = main.merge("side")
    for parent in (3, -1, 0):
        with pytest.raises(InvalidInput, match=f"no parent number {parent}"):
            main.revert(merged.id, parent=parent)
    assert repo.commit("main") == merged


def test_a_plain_commit_may_be_reverted_against_its_only_parent(main: Branch, side: Branch) -> None:
    save(main, {"a": "1"})
    with pytest.raises(InvalidInput, match="no parent number 2"):
        main.revert("main", parent=2)
    main.revert("main", parent=1)
    assert shown(main)["a"] == "0"


def test_a_revert_of_what_changed_since_is_a_conflict(
    repo: Repository, main: Branch, side: Branch
) -> None:
    undone = save(main, {"a": "1", "b": "1"})
    last = save(main, {"a": "2"})
    with pytest.raises(MergeConflict) as error:
        main.revert(undone.id)
    assert error.value.details["paths"] == ["a"]
    assert repo.commit("main") == last


def test_a_revert_that_would_change_nothing_is_refused(
    repo: Repository, main: Branch, side: Branch
) -> None:
    undone = save(main, {"a": "1"})
    main.revert(undone.id)
    head = repo.commit("main")
    with pytest.raises(NothingToCommit, match="would change nothing"):
        main.revert(undone.id)
    with pytest.raises(NothingToCommit):
        main.revert(save(side, {}).id)
    assert repo.commit("main") == head


def test_the_first_commit_cannot_be_reverted(repo: Repository, main: Branch) -> None:
    with pytest.raises(InvalidInput, match="is the root commit"):
        main.revert("main")


def test_a_commit_whose_parents_were_replaced_cannot_be_reverted(
    repo: Repository, main: Branch
) -> None:
    commit = save(main, {"a": "1"})
    mark(repo, commit)
    with pytest.raises(InvalidInput, match="replaced by an expiration"):
        main.revert(commit.id)


def test_a_branch_with_changes_is_not_reverted(main: Branch, side: Branch) -> None:
    save(main, {"a": "1"})
    stage(main, {"x": "1"})
    with pytest.raises(DirtyBranch):
        main.revert("main")


def test_the_commit_of_another_branch_can_be_reverted(main: Branch, side: Branch) -> None:
    undone = save(side, {"a": "side"})
    with pytest.raises(NothingToCommit):
        main.revert(undone.id)
    save(main, {"a": "side"})
    main.revert(undone.id)
    assert shown(main)["a"] == "0"
