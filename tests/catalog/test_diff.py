"""What differs between two refs, and what is not committed yet."""

from __future__ import annotations

import pytest

from reclaim.catalog import Branch, Import, Repository
from reclaim.catalog.content import ranges
from reclaim.errors import InvalidInput
from tests.catalog.saving import ADDED, CHANGED, REMOVED, kinds, save, seal, stage


def test_a_diff_names_what_was_added_removed_and_changed(repo: Repository, main: Branch) -> None:
    first = save(main, {"a": "1", "b": "1", "c": "1", "d/x": "1"})
    second = save(main, {"a": "2", "b": None, "e": "1", "d/y": "1"})
    expected = {"a": CHANGED, "b": REMOVED, "d/y": ADDED, "e": ADDED}
    assert kinds(repo.diff(first.id, second.id)) == expected
    assert kinds(repo.diff("main~1", "main")) == expected
    assert kinds(repo.diff(second.id, first.id)) == {
        "a": CHANGED,
        "b": ADDED,
        "d/y": REMOVED,
        "e": REMOVED,
    }
    assert list(repo.diff("main", "main")) == []
    change = next(iter(repo.diff(first.id, second.id)))
    assert change.before is not None
    assert change.after is not None
    assert (change.before.address[-1], change.after.address[-1]) == ("1", "2")


def test_a_diff_can_be_limited_to_a_prefix(repo: Repository, main: Branch) -> None:
    first = save(main, {"a": "1", "b/1": "1", "b/2": "1", "b0": "1"})
    second = save(main, {"a": "2", "b/1": "2", "b/3": "1", "b0": "2", "bb": "1"})
    assert kinds(repo.diff(first.id, second.id, "b/")) == {"b/1": CHANGED, "b/3": ADDED}
    assert kinds(repo.diff(first.id, second.id, "b/3")) == {"b/3": ADDED}
    assert list(repo.diff(first.id, second.id, "x")) == []
    with pytest.raises(InvalidInput):
        repo.diff(first.id, second.id, "/b")


def test_the_same_content_at_another_address_is_no_difference(
    repo: Repository, main: Branch
) -> None:
    before = main.put("a", b"same", content_type="t", metadata={"k": "v"})
    first = main.commit("first")
    after = main.put("a", b"same", content_type="t", metadata={"k": "v"})
    second = main.commit("second")
    assert before.address != after.address
    assert list(repo.diff(first.id, second.id)) == []
    main.put("a", b"same", content_type="other", metadata={"k": "v"})
    third = main.commit("third")
    assert kinds(repo.diff(second.id, third.id)) == {"a": CHANGED}
    main.put("a", b"same", content_type="other", metadata={"k": "w"})
    assert kinds(repo.diff(third.id, main.commit("fourth").id)) == {"a": CHANGED}


def test_objects_whose_content_nobody_knows_differ(repo: Repository, main: Branch) -> None:
    first = save(main, {"a": "1", "b": "1"})
    main.stage_many([Import("a", "s3://outside/2", 1)])
    second = main.commit("same size, no checksum")
    assert kinds(repo.diff(first.id, second.id)) == {"a": CHANGED}


def test_uncommitted_changes_are_what_a_commit_would_change(repo: Repository, main: Branch) -> None:
    save(main, {"a": "1", "b": "1", "c/1": "1"})
    stage(main, {"a": "2", "d": "1"})
    seal(repo)
    stage(main, {"c/2": "1"})
    main.delete_many(["b", "c/1"])
    expected = {"a": CHANGED, "b": REMOVED, "c/1": REMOVED, "c/2": ADDED, "d": ADDED}
    assert kinds(main.uncommitted()) == expected
    assert kinds(main.uncommitted("c/")) == {"c/1": REMOVED, "c/2": ADDED}
    main.commit("all")
    assert kinds(repo.diff("main~1", "main")) == expected


def test_a_diff_reads_only_ranges_that_differ(
    repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "TARGET_ROWS", 8)
    first = save(main, {f"{n:03d}": "1" for n in range(300)})
    second = save(main, {"150": "2"})
    containers = repo._workspace.containers
    monkeypatch.setattr(containers._ranges, "_most", 0)
    containers._ranges._values.clear()
    before = containers.ranges_read
    assert kinds(repo.diff(first.id, second.id)) == {"150": CHANGED}
    assert containers.ranges_read - before == 2
