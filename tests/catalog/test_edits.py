"""Delete, copy and move: before commits, after them, and over a commit that crashed half-way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection

from reclaim.catalog import Branch, ChangeKind, Repository
from reclaim.catalog.staging import tokens
from reclaim.catalog.staging.tokens import View, ViewChanged
from reclaim.errors import Conflict, InvalidInput, InvalidPath, NotFound
from reclaim.testing import FakeClock

Settle = Callable[[Branch], None]


def seal(repo: Repository, branch: str = "main") -> None:
    """What a commit that crashed half-way leaves behind."""
    repo._workspace.database.transact(
        lambda connection: tokens.seal(
            connection, tokens.lock_branch(connection, repo.uid, branch), "partition"
        )
    )


@pytest.fixture(params=["staged", "sealed", "committed"])
def settle(request: pytest.FixtureRequest, repo: Repository) -> Settle:
    """Where the objects lie when they are edited."""

    def settled(branch: Branch) -> None:
        if request.param == "sealed":
            seal(repo, branch.name)
        elif request.param == "committed":
            branch.commit("settled")

    return settled


def shown(branch: Branch) -> dict[str, bytes]:
    return {entry.path: branch.get(entry.path) for entry in branch.entries()}


def stored(repo: Repository) -> set[str]:
    """The addresses of all data in the repository."""
    prefix = f"repos/{repo.uid}/branches/"
    return {found.address for found in repo._workspace.storage.list(prefix)}


# Delete


def test_a_deleted_object_is_not_there_any_more(main: Branch, settle: Settle) -> None:
    main.put("a", b"1")
    main.put("b", b"2")
    settle(main)
    main.delete("a")
    assert shown(main) == {"b": b"2"}
    assert not main.exists("a")
    with pytest.raises(NotFound, match="no object 'a' on main"):
        main.delete("a")
    main.commit("without a")
    assert shown(main) == {"b": b"2"}


def test_a_deleted_object_can_be_put_again(main: Branch, settle: Settle) -> None:
    main.put("a", b"1")
    settle(main)
    main.delete("a")
    main.put("a", b"2")
    assert shown(main) == {"a": b"2"}
    main.delete("a")
    assert shown(main) == {}
    main.put("a", b"3")
    main.commit("third")
    assert shown(main) == {"a": b"3"}


def test_an_object_that_was_staged_and_deleted_leaves_no_change(main: Branch) -> None:
    main.put("keep", b"1")
    main.commit("first")
    main.put("a", b"1")
    main.delete("a")
    assert list(main.uncommitted()) == []
    main.delete("keep")
    (change,) = main.uncommitted()
    assert (change.path, change.kind) == ("keep", ChangeKind.REMOVED)


def test_an_object_that_was_sealed_and_deleted_leaves_no_change(
    repo: Repository, main: Branch
) -> None:
    main.put("a", b"1")
    seal(repo)
    main.delete("a")
    assert list(main.uncommitted()) == []
    main.commit("nothing in it")
    assert shown(main) == {}


def test_an_overwritten_object_is_deleted_with_what_it_hid(main: Branch) -> None:
    main.put("a", b"1")
    main.commit("first")
    main.put("a", b"2")
    main.delete("a")
    assert shown(main) == {}
    main.commit("gone")
    assert shown(main) == {}


def test_several_objects_are_deleted_together(main: Branch, settle: Settle) -> None:
    for path in "abc":
        main.put(path, b"x")
    settle(main)
    main.put("d", b"x")
    main.delete_many(["a", "c", "d"])
    assert shown(main) == {"b": b"x"}


def test_deleting_several_objects_is_all_or_nothing(main: Branch, settle: Settle) -> None:
    for path in "abc":
        main.put(path, b"x")
    settle(main)
    main.put("d", b"x")
    for paths in (["a", "d", "absent"], ["absent", "a"], ["a", "a"]):
        with pytest.raises(NotFound):
            main.delete_many(paths)
        assert sorted(shown(main)) == ["a", "b", "c", "d"]
    with pytest.raises(InvalidPath):
        main.delete_many(["a", "/b"])
    assert sorted(shown(main)) == ["a", "b", "c", "d"]


def test_deleting_nothing_is_nothing(main: Branch) -> None:
    main.delete_many([])
    assert list(main.uncommitted()) == []


def test_a_delete_on_one_branch_is_not_seen_on_another(repo: Repository, main: Branch) -> None:
    main.put("a", b"1")
    first = main.commit("first")
    other = repo.create_branch("other")
    other.delete("a")
    other.commit("gone")
    assert shown(main) == {"a": b"1"}
    assert repo.at(first.id).get("a") == b"1"


# Copy


def test_a_copy_on_the_same_branch_shares_the_bytes(
    repo: Repository, main: Branch, settle: Settle, clock: FakeClock
) -> None:
    entry = main.put("a", b"1", content_type="text/plain", metadata={"k": "v"})
    settle(main)
    before = stored(repo)
    clock.advance(minutes=1)
    copied = main.copy("a", "b")
    assert stored(repo) == before
    assert copied == main.stat("b")
    assert copied.address == entry.address
    assert copied.created_at == entry.created_at + timedelta(minutes=1)
    assert (copied.size, copied.checksum) == (entry.size, entry.checksum)
    assert (copied.content_type, copied.metadata) == ("text/plain", {"k": "v"})
    assert main.stat("a") == entry
    main.commit("copied")
    assert (main.stat("a"), main.stat("b")) == (entry, copied)
    main.delete("a")
    main.commit("the copy stays")
    assert shown(main) == {"b": b"1"}


@pytest.mark.parametrize("source", ["branch", "staging", "tag", "commit", "expression"])
def test_a_copy_from_elsewhere_has_its_own_bytes(
    repo: Repository, main: Branch, clock: FakeClock, source: str
) -> None:
    other = repo.create_branch("other")
    entry = other.put("a", b"other", content_type="text/plain", metadata={"k": "v"})
    ref = "other"
    if source != "staging":
        commit = other.commit("other")
        other.delete("a")
        other.commit("gone there")
        repo.create_tag("v1", commit.id)
        ref = {"branch": "other2", "tag": "v1", "commit": commit.id, "expression": "other~1"}[
            source
        ]
        repo.create_branch("other2", "v1")
    before = stored(repo)
    clock.advance(minutes=1)
    copied = main.copy("a", "b", source_ref=ref)
    assert stored(repo) == before | {copied.address}
    assert copied.address not in before
    assert "/branches/main/" in copied.address
    assert copied.created_at == clock.now()
    assert (copied.size, copied.checksum) == (entry.size, entry.checksum)
    assert (copied.content_type, copied.metadata) == ("text/plain", {"k": "v"})
    assert shown(main) == {"b": b"other"}
    main.commit("copied")
    assert shown(main) == {"b": b"other"}


def test_an_old_version_is_copied_as_bytes(repo: Repository, main: Branch) -> None:
    old = main.put("a", b"old")
    first = main.commit("old")
    main.put("a", b"new")
    main.commit("new")
    copied = main.copy("a", "a", source_ref=first.id)
    assert copied.address != old.address
    assert shown(main) == {"a": b"old"}


def test_a_copy_from_a_ref_shares_what_the_branch_still_shows(
    repo: Repository, main: Branch
) -> None:
    entry = main.put("a", b"1")
    first = main.commit("first")
    repo.create_tag("v1", "main")
    other = repo.create_branch("other")
    for ref in (first.id, "v1", "main", "other"):
        assert other.copy("a", "b", source_ref=ref).address == entry.address
    # Once the branch does not show it any more, nothing there would hold the address.
    other.delete_many(["a", "b"])
    assert other.copy("a", "b", source_ref="v1").address != entry.address


def test_an_object_outside_the_catalog_is_shared_from_anywhere(
    repo: Repository, main: Branch, tmp_path: Path
) -> None:
    file = tmp_path / "outside"
    file.write_bytes(b"outside")
    other = repo.create_branch("other")
    entry = other.stage("a", str(file))
    before = stored(repo)
    assert main.copy("a", "b", source_ref="other").address == entry.address
    assert stored(repo) == before
    assert shown(main) == {"b": b"outside"}


def test_a_copy_replaces_what_is_at_the_target(main: Branch, settle: Settle) -> None:
    main.put("a", b"1")
    main.put("b", b"2")
    settle(main)
    main.copy("a", "b")
    assert shown(main) == {"a": b"1", "b": b"1"}
    main.commit("copied")
    assert shown(main) == {"a": b"1", "b": b"1"}


def test_a_copy_of_what_is_not_there_is_refused(repo: Repository, main: Branch) -> None:
    main.put("a", b"1")
    with pytest.raises(NotFound, match="no object 'absent' on main"):
        main.copy("absent", "b")
    with pytest.raises(NotFound, match="nowhere"):
        main.copy("a", "b", source_ref="nowhere")
    with pytest.raises(NotFound, match="no branch 'nope'"):
        repo.branch("nope").copy("a", "b", source_ref="main")
    for source, target in (("a", "/b"), ("a/", "b")):
        with pytest.raises(InvalidPath):
            main.copy(source, target)
    assert shown(main) == {"a": b"1"}


# Move


def test_a_moved_object_keeps_its_date_and_its_bytes(
    repo: Repository, main: Branch, settle: Settle, clock: FakeClock
) -> None:
    entry = main.put("a", b"1", content_type="text/plain", metadata={"k": "v"})
    settle(main)
    before = stored(repo)
    clock.advance(minutes=1)
    moved = main.move("a", "b/c")
    assert (moved.address, moved.created_at) == (entry.address, entry.created_at)
    assert (moved.content_type, moved.metadata) == ("text/plain", {"k": "v"})
    assert stored(repo) == before
    assert shown(main) == {"b/c": b"1"}
    main.commit("moved")
    assert main.stat("b/c") == moved
    assert shown(main) == {"b/c": b"1"}


def test_a_move_onto_an_object_replaces_it(main: Branch, settle: Settle) -> None:
    main.put("a", b"1")
    main.put("b", b"2")
    settle(main)
    main.move("a", "b")
    assert shown(main) == {"b": b"1"}
    main.commit("moved")
    assert shown(main) == {"b": b"1"}


def test_an_object_can_be_moved_there_and_back(main: Branch, settle: Settle) -> None:
    entry = main.put("a", b"1")
    settle(main)
    main.move("a", "b")
    main.move("b", "a")
    assert main.stat("a") == entry
    assert shown(main) == {"a": b"1"}
    main.commit("as before", allow_empty=True)
    assert shown(main) == {"a": b"1"}


def test_a_copy_can_be_moved_onto_its_source(main: Branch, settle: Settle) -> None:
    main.put("a", b"1")
    settle(main)
    main.copy("a", "b")
    main.move("b", "a")
    assert shown(main) == {"a": b"1"}
    main.commit("one again", allow_empty=True)
    assert shown(main) == {"a": b"1"}


def test_a_path_is_free_after_a_move(main: Branch, settle: Settle) -> None:
    main.put("a", b"1")
    settle(main)
    main.move("a", "b")
    main.put("a", b"2")
    assert shown(main) == {"a": b"2", "b": b"1"}
    main.commit("both")
    assert shown(main) == {"a": b"2", "b": b"1"}


def test_a_move_that_cannot_be_is_refused(main: Branch, settle: Settle) -> None:
    main.put("a", b"1")
    settle(main)
    with pytest.raises(NotFound, match="no object 'absent' on main"):
        main.move("absent", "b")
    with pytest.raises(InvalidInput, match="cannot be moved to its own path"):
        main.move("a", "a")
    with pytest.raises(InvalidPath):
        main.move("a", "../b")
    assert shown(main) == {"a": b"1"}


def test_a_move_shows_as_one_path_less_and_one_more(repo: Repository, main: Branch) -> None:
    main.put("a", b"1")
    first = main.commit("first")
    main.move("a", "b")
    kinds = {change.path: change.kind for change in main.uncommitted()}
    assert kinds == {"a": ChangeKind.REMOVED, "b": ChangeKind.ADDED}
    main.commit("moved")
    assert {change.path: change.kind for change in repo.diff(first.id, "main")} == kinds


def test_an_edit_of_a_branch_that_is_not_there_is_refused(repo: Repository) -> None:
    with pytest.raises(NotFound, match="no branch 'nope'"):
        repo.branch("nope").delete("a")
    with pytest.raises(NotFound, match="no branch 'nope'"):
        repo.branch("nope").move("a", "b")


def test_an_edit_starts_again_when_the_branch_moved_meanwhile(
    main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    main.put("a", b"1")
    real = tokens.lock_view
    moved = iter([True])

    def racing(connection: Connection, view: View, *, exclusive: bool = False) -> None:
        real(connection, view, exclusive=exclusive)
        if next(moved, False):
            raise ViewChanged("the branch main changed")

    monkeypatch.setattr(tokens, "lock_view", racing)
    main.move("a", "b")
    assert next(moved, False) is False
    assert shown(main) == {"b": b"1"}


def test_an_edit_gives_up_on_a_branch_that_keeps_moving(
    main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    main.put("a", b"1")

    def losing(connection: Connection, view: View, *, exclusive: bool = False) -> None:
        raise ViewChanged("the branch main changed")

    monkeypatch.setattr(tokens, "lock_view", losing)
    with pytest.raises(Conflict, match="kept changing"):
        main.delete("a")
    assert shown(main) == {"a": b"1"}
