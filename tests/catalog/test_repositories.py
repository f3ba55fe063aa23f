"""Repositories: made, listed, deleted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import select, update

from reclaim.catalog import Branch, Catalog, Commit, Repository
from reclaim.catalog.database.schema import repositories
from reclaim.clock import to_micros
from reclaim.errors import AlreadyExists, InvalidName, NotFound
from reclaim.testing import FakeClock
from tests.catalog.saving import put_and_commit


def test_a_repository_begins_with_an_empty_commit(repo: Repository, clock: FakeClock) -> None:
    (origin,) = repo.log()
    assert origin.parents == ()
    assert origin.written_at == clock.now() == repo.created_at
    assert origin.message == "Repository created"
    assert list(repo.branch("main").entries()) == []


def test_repositories_are_listed_by_name(catalog: Catalog, clock: FakeClock) -> None:
    assert catalog.repositories() == []
    for name in ("zebra", "apple", "m.1"):
        catalog.create_repository(name)
        clock.advance(minutes=1)
    listed = catalog.repositories()
    assert [info.name for info in listed] == ["apple", "m.1", "zebra"]
    assert listed[2].created_at == listed[0].created_at - (clock.now() - listed[1].created_at)
    assert len({info.uid for info in listed}) == 3
    assert catalog.repository("apple").uid == listed[0].uid


def test_repositories_do_not_see_each_other(catalog: Catalog) -> None:
    one, two = catalog.create_repository("one"), catalog.create_repository("two")
    commit = put_and_commit(one.branch("main"), b"1")
    one.create_tag("v1", "main")
    for ref in (commit.id, commit.id[:8], "v1"):
        with pytest.raises(NotFound):
            two.commit(ref)
    assert not two.branch("main").exists("a")


def test_a_repository_that_exists_or_has_a_wrong_name_is_refused(catalog: Catalog) -> None:
    catalog.create_repository("sales")
    with pytest.raises(AlreadyExists, match="repository 'sales' already exists"):
        catalog.create_repository("sales")
    with pytest.raises(InvalidName):
        catalog.create_repository("Sales")
    with pytest.raises(InvalidName):
        catalog.create_repository("other", default_branch="a b")
    for name in ("absent", "Sales", ""):
        with pytest.raises(NotFound, match="no repository"):
            catalog.repository(name)
        with pytest.raises(NotFound, match="no repository"):
            catalog.delete_repository(name)


def test_a_deleted_repository_leaves_its_row_and_frees_its_name(
    catalog: Catalog, repo: Repository, main: Branch, clock: FakeClock
) -> None:
    put_and_commit(main, b"1")
    clock.advance(minutes=1)
    catalog.delete_repository("sales")
    assert catalog.repositories() == []
    with repo._workspace.database.read() as connection:
        (row,) = connection.execute(select(repositories)).all()
    assert (row.uid, row.name, row.deleted_at) == (repo.uid, "sales", to_micros(clock.now()))
    again = catalog.create_repository("sales")
    assert again.uid != repo.uid
    assert not again.branch("main").exists("a")
    catalog.delete_repository("sales")
    assert {info.uid for info in catalog.repositories()} == set()


USES: dict[str, Callable[[Repository, Commit], object]] = {
    "put": lambda repo, _: repo.branch("main").put("b", b"2"),
    "put_many": lambda repo, _: repo.branch("main").put_many([("b", b"2")]),
    "get": lambda repo, _: repo.branch("main").get("a"),
    "get by commit": lambda repo, commit: repo.at(commit.id).get("a"),
    "delete": lambda repo, _: repo.branch("main").delete("a"),
    "copy": lambda repo, commit: repo.branch("main").copy("a", "b", source_ref=commit.id),
    "move": lambda repo, _: repo.branch("main").move("a", "b"),
    "commit": lambda repo, _: repo.branch("main").commit("x", allow_empty=True),
    "merge": lambda repo, commit: repo.branch("main").merge(commit.id),
    "revert": lambda repo, commit: repo.branch("main").revert(commit.id),
    "reset": lambda repo, _: repo.branch("main").reset(),
    "reset_to": lambda repo, commit: repo.branch("main").reset_to(commit.id),
    "physical": lambda repo, _: repo.branch("main").get_physical_address("b"),
    "list": lambda repo, _: repo.branch("main").list(),
    "uncommitted": lambda repo, _: list(repo.branch("main").uncommitted()),
    "branches": lambda repo, _: repo.branches(),
    "tags": lambda repo, _: repo.tags(),
    "create_branch": lambda repo, commit: repo.create_branch("b", commit.id),
    "create_tag": lambda repo, commit: repo.create_tag("b", commit.id),
    "delete_branch": lambda repo, _: repo.delete_branch("other"),
    "delete_tag": lambda repo, _: repo.delete_tag("v1"),
    "log": lambda repo, _: list(repo.log()),
    "log of a commit": lambda repo, commit: list(repo.log(commit.id)),
    "diff": lambda repo, commit: list(repo.diff(commit.id, f"{commit.id}~1")),
    "merge_base": lambda repo, commit: repo.merge_base(commit.id, commit.id),
}


def answers(repo: Repository, commit: Commit, name: str) -> bool:
    try:
        USES[name](repo, commit)
    except NotFound:
        return False
    return True


def test_a_deleted_repository_is_not_found_through_an_old_handle(
    catalog: Catalog, repo: Repository, main: Branch
) -> None:
    first = put_and_commit(main, b"1")
    repo.create_branch("other")
    repo.create_tag("v1", "main")
    catalog.delete_repository("sales")
    catalog.create_repository("sales")
    stored = {found.address for found in repo._workspace.storage.list(f"repos/{repo.uid}")}
    by_id = {"get by commit", "branches", "tags", "log of a commit", "diff", "merge_base"}
    assert {name for name in USES if name not in by_id and answers(repo, first, name)} == set()
    after = {found.address for found in repo._workspace.storage.list(f"repos/{repo.uid}")}
    assert after == stored


def test_a_deleted_repository_does_not_answer_by_commit_either(
    catalog: Catalog, repo: Repository, main: Branch
) -> None:
    first = put_and_commit(main, b"1")
    catalog.delete_repository("sales")
    assert {name for name in USES if answers(repo, first, name)} == set()


def test_no_repository_is_named_like_the_uid_of_another(catalog: Catalog) -> None:
    first = catalog.create_repository("first")
    with pytest.raises(InvalidName, match="looks like the uid"):
        catalog.create_repository(first.uid)


def test_a_uid_comes_before_a_name(catalog: Catalog) -> None:
    """A catalog may have such a name from before."""
    first, second = catalog.create_repository("first"), catalog.create_repository("second")
    with catalog._database.write() as connection:
        named = update(repositories).where(repositories.c.uid == second.uid)
        connection.execute(named.values(name=first.uid))
    assert {workspace.repo_uid for workspace in catalog.workspaces()} == {first.uid, second.uid}
    assert catalog.workspace(first.uid).repo_uid == first.uid
