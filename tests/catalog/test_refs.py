"""Branches and tags."""

from __future__ import annotations

import pytest

from reclaim.catalog import Branch, Catalog, Repository
from reclaim.errors import AlreadyExists, Conflict, InvalidInput, InvalidName, NotFound
from reclaim.model import RefKind
from reclaim.testing import FakeClock
from tests.catalog.saving import put_and_commit

# Branches


def test_a_branch_starts_where_its_source_is(repo: Repository, main: Branch) -> None:
    first = put_and_commit(main, b"1")
    second = put_and_commit(main, b"2")
    repo.create_tag("v1", first.id)
    heads = {
        "default": None,
        "branch": "main",
        "tag": "v1",
        "commit": first.id,
        "beginning": second.id[:8],
        "expression": "main~1",
    }
    made = {name: repo.create_branch(name, source) for name, source in heads.items()}
    contents = {name: branch.get("a") for name, branch in made.items()}
    assert contents == {
        "default": b"2",
        "branch": b"2",
        "tag": b"1",
        "commit": b"1",
        "beginning": b"2",
        "expression": b"1",
    }
    assert repo.commit("expression") == first


def test_branches_are_listed_by_name(repo: Repository, main: Branch, clock: FakeClock) -> None:
    first = put_and_commit(main, b"1")
    clock.advance(minutes=1)
    for name in ("z", "a", "m/n", "Z"):
        repo.create_branch(name)
    listed = repo.branches()
    assert [ref.name for ref in listed] == ["Z", "a", "m/n", "main", "z"]
    assert {ref.kind for ref in listed} == {RefKind.BRANCH}
    assert {ref.commit for ref in listed} == {first.id}
    assert [ref.name for ref in listed if ref.default] == ["main"]
    assert listed[0].created_at == clock.now()


def test_what_is_staged_stays_on_its_branch(repo: Repository, main: Branch) -> None:
    put_and_commit(main, b"1")
    main.put("a", b"staged")
    other = repo.create_branch("other")
    assert other.get("a") == b"1"
    other.put("a", b"other")
    assert main.get("a") == b"staged"
    assert repo.at("main~0").get("a") == b"1"


def test_a_ref_with_a_wrong_name_is_refused(repo: Repository) -> None:
    for name in ("", "a b", ".a", "a/", "0123456789abcdef0123456789abcdef"):
        with pytest.raises(InvalidName):
            repo.create_branch(name)
        with pytest.raises(InvalidName):
            repo.create_tag(name, "main")


def test_a_ref_at_nothing_is_refused(repo: Repository) -> None:
    for source in ("nowhere", "main~1", "main^2", "abcdef0123"):
        with pytest.raises(NotFound):
            repo.create_branch("a", source)
        with pytest.raises(NotFound):
            repo.create_tag("a", source)
    assert [ref.name for ref in repo.branches()] == ["main"]
    assert repo.tags() == []


def test_a_deleted_branch_is_gone_and_its_commits_stay(repo: Repository) -> None:
    other = repo.create_branch("other")
    commit = put_and_commit(other, b"1")
    repo.delete_branch("other")
    assert [ref.name for ref in repo.branches()] == ["main"]
    with pytest.raises(NotFound, match="no branch, tag or commit 'other'"):
        other.get("a")
    with pytest.raises(NotFound, match="no branch 'other'"):
        other.put("a", b"2")
    assert repo.at(commit.id).get("a") == b"1"
    with pytest.raises(NotFound, match="no branch 'other'"):
        repo.delete_branch("other")


def test_the_default_branch_cannot_be_deleted(catalog: Catalog) -> None:
    repo = catalog.create_repository("trunked", default_branch="trunk")
    assert repo.default_branch == "trunk"
    repo.create_branch("main")
    repo.delete_branch("main")
    with pytest.raises(Conflict, match="trunk is the default branch"):
        repo.delete_branch("trunk")
    assert [ref.name for ref in repo.branches()] == ["trunk"]


def test_a_branch_made_again_does_not_see_the_old_staging(repo: Repository) -> None:
    other = repo.create_branch("other")
    other.put("old", b"1")
    repo.delete_branch("other")
    again = repo.create_branch("other")
    assert list(again.entries()) == []
    assert list(again.uncommitted()) == []
    again.put("new", b"2")
    again.commit("new")
    repo.clean()
    assert [entry.path for entry in again.entries()] == ["new"]
    assert again.get("new") == b"2"


def test_a_branch_with_slashes_is_one_segment_of_the_storage(repo: Repository) -> None:
    names = ["feature/one", "feature/one/two", "feature", "a.b-c_d/E"]
    for name in names:
        entry = repo.create_branch(name).put("x/y", name.encode())
        rest = entry.address.removeprefix(f"repos/{repo.uid}/branches/")
        segment, partition, uid = rest.split("/")
        assert segment == name.replace("/", "%2F").replace("E", "%45")
        assert partition
        assert len(uid) == 32
    stored = {found.address for found in repo._workspace.storage.list(f"repos/{repo.uid}/branches")}
    assert stored == {repo.branch(name).stat("x/y").address for name in names}
    for name in names:
        assert repo.branch(name).get("x/y") == name.encode()
        assert repo.at(name).get("x/y") == name.encode()


# Tags


def test_a_tag_names_a_commit_and_does_not_move(
    repo: Repository, main: Branch, clock: FakeClock
) -> None:
    first = put_and_commit(main, b"1")
    assert repo.create_tag("v1", "main") == first
    put_and_commit(main, b"2")
    assert repo.at("v1").get("a") == b"1"
    assert repo.create_tag("v0", "v1").id == first.id
    (v0, v1) = repo.tags()
    assert (v0.name, v1.name) == ("v0", "v1")
    assert (v1.kind, v1.commit, v1.default) == (RefKind.TAG, first.id, False)
    assert v1.created_at == clock.now()


def test_a_tag_shows_nothing_that_is_staged(repo: Repository, main: Branch) -> None:
    put_and_commit(main, b"1")
    main.put("a", b"2")
    repo.create_tag("v1", "main")
    assert repo.at("v1").get("a") == b"1"


def test_a_deleted_tag_is_gone_and_its_commit_stays(repo: Repository, main: Branch) -> None:
    first = put_and_commit(main, b"1")
    repo.create_tag("v1", "main")
    repo.delete_tag("v1")
    assert repo.tags() == []
    with pytest.raises(NotFound):
        repo.at("v1").get("a")
    with pytest.raises(NotFound, match="no tag 'v1'"):
        repo.delete_tag("v1")
    assert repo.at(first.id).get("a") == b"1"
    put_and_commit(main, b"2")
    assert repo.create_tag("v1", "main").id == repo.commit("main").id


def test_a_tag_cannot_be_written(repo: Repository, main: Branch) -> None:
    put_and_commit(main, b"1")
    repo.create_tag("v1", "main")
    with pytest.raises(InvalidInput, match="'v1' is a tag"):
        repo.branch("v1").put("a", b"2")
    with pytest.raises(NotFound, match="no branch 'v1'"):
        repo.delete_branch("v1")
    with pytest.raises(NotFound, match="no tag 'main'"):
        repo.delete_tag("main")


def test_branches_and_tags_share_their_names(repo: Repository) -> None:
    repo.create_branch("one")
    repo.create_tag("two", "main")
    with pytest.raises(AlreadyExists, match="branch 'one' already exists"):
        repo.create_branch("one")
    with pytest.raises(AlreadyExists, match="branch 'one' already exists"):
        repo.create_tag("one", "main")
    with pytest.raises(AlreadyExists, match="tag 'two' already exists"):
        repo.create_branch("two")
    with pytest.raises(AlreadyExists, match="tag 'two' already exists"):
        repo.create_tag("two", "main")
    repo.delete_tag("two")
    repo.create_branch("two")
