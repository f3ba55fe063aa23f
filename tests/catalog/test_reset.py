"""Resets of an object, a prefix or a branch."""

from __future__ import annotations

from typing import Any

import pytest

from reclaim.catalog import Branch, Repository
from reclaim.catalog.content import range_writer
from reclaim.catalog.content.ranges import RangeInfo
from reclaim.errors import InvalidInput, NotFound, TransactionFailed
from tests.catalog.saving import save, seal, shown, stage


def test_a_reset_object_is_as_committed(repo: Repository, main: Branch) -> None:
    save(main, {"a": "1", "b": "1"})
    stage(main, {"a": "sealed", "n": "sealed"})
    seal(repo)
    stage(main, {"a": "open", "n": "open"})
    main.delete("b")
    main.reset_path("a")
    main.reset_path("n")
    assert shown(main) == {"a": "1"}
    main.reset_path("b")
    assert shown(main) == {"a": "1", "b": "1"}
    assert list(main.uncommitted()) == []
    with pytest.raises(NotFound, match="'b' has no uncommitted change on main"):
        main.reset_path("b")
    with pytest.raises(InvalidInput):
        main.reset_path("")


def test_a_reset_prefix_is_as_committed(repo: Repository, main: Branch) -> None:
    save(main, {"a/1": "1", "b": "1"})
    stage(main, {"a/1": "2", "a/2": "2", "a": "2", "a0": "2"})
    seal(repo)
    stage(main, {"a/3": "2"})
    main.delete("b")
    assert main.reset_prefix("a/") == 3
    assert shown(main) == {"a": "2", "a/1": "1", "a0": "2"}
    assert main.reset_prefix("a/") == 0
    with pytest.raises(InvalidInput, match="the prefix is empty"):
        main.reset_prefix("")
    main.commit("the rest")
    assert shown(main) == {"a": "2", "a/1": "1", "a0": "2"}


def test_a_reset_branch_is_as_committed(repo: Repository, main: Branch) -> None:
    head = save(main, {"a": "1", "b": "1"})
    stage(main, {"a": "2", "c": "2"})
    seal(repo)
    main.delete("b")
    main.reset()
    assert shown(main) == {"a": "1", "b": "1"}
    assert list(main.uncommitted()) == []
    assert repo.commit("main") == head
    main.reset()
    stage(main, {"d": "1"})
    main.commit("goes on")
    assert shown(main) == {"a": "1", "b": "1", "d": "1"}


def test_a_branch_can_be_reset_to_any_commit(repo: Repository, main: Branch) -> None:
    one, two = save(main, {"a": "1"}), save(main, {"a": "2"})
    repo.create_tag("v1", one.id)
    stage(main, {"a": "staged", "b": "staged"})
    assert main.reset_to("v1") == one
    assert shown(main) == {"a": "1"}
    assert repo.commit("main") == one
    assert main.reset_to(two.id[:10]) == two
    assert main.reset_to("main~1") == one
    three = save(main, {"a": "3"})
    assert three.parents == (one.id,)
    with pytest.raises(NotFound):
        main.reset_to("nowhere")
    with pytest.raises(NotFound, match="no branch 'nope'"):
        repo.branch("nope").reset_to("main")


def test_what_a_reset_took_cannot_be_committed(
    repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reset between the seal and the end of a commit must win, even when nothing else did."""
    stage(main, {"a": "1", "b": "1"})
    resets = iter([main.reset_path])
    real = range_writer.rewrite

    def slow(*args: Any, **kwargs: Any) -> tuple[list[RangeInfo], str]:
        done = real(*args, **kwargs)
        for reset in resets:
            reset("a")
        return done

    monkeypatch.setattr("reclaim.catalog.refs.committing.rewrite", slow)
    with pytest.raises(TransactionFailed, match="were reset"):
        main.commit("too late")
    assert shown(main) == {"b": "1"}
    main.commit("the rest")
    assert shown(main) == {"b": "1"}
