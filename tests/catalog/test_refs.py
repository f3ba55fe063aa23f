"""Branches, tags, repositories, and the expressions that name a commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import insert, select

from reclaim.catalog import Branch, Catalog, Commit, Repository
from reclaim.catalog.schema import commits, repositories
from reclaim.clock import to_micros
from reclaim.errors import AlreadyExists, Conflict, InvalidInput, InvalidName, NotFound
from reclaim.model import RefKind
from reclaim.testing import FakeClock


def put_and_commit(branch: Branch, content: bytes, message: str = "next") -> Commit:
    branch.put("a", content)
    return branch.commit(message)


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
        assert segment == name.replace("/", "%2F")
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
    with pytest.raises(NotFound, match="no branch 'v1'"):
        repo.branch("v1").put("a", b"2")
    with pytest.raises(NotFound, match="no branch 'v1'"):
        repo.delete_branch("v1")
    with pytest.raises(NotFound, match="no tag 'main'"):
        repo.delete_tag("main")


def test_branches_and_tags_share_their_names(repo: Repository) -> None:
    repo.create_branch("one")
    repo.create_tag("two", "main")
    with pytest.raises(AlreadyExists, match="a branch 'one' already"):
        repo.create_branch("one")
    with pytest.raises(AlreadyExists, match="a branch 'one' already"):
        repo.create_tag("one", "main")
    with pytest.raises(AlreadyExists, match="a tag 'two' already"):
        repo.create_branch("two")
    with pytest.raises(AlreadyExists, match="a tag 'two' already"):
        repo.create_tag("two", "main")
    repo.delete_tag("two")
    repo.create_branch("two")


# Repositories


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
    with pytest.raises(AlreadyExists, match="a repository 'sales' already"):
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


# Expressions


@pytest.fixture
def history(repo: Repository, main: Branch) -> dict[str, str]:
    """origin ← one ← two ← merge, with side (from one) as the merge's second parent."""
    ids = {"origin": repo.commit("main").id}
    ids["one"] = put_and_commit(main, b"1").id
    side = repo.create_branch("side")
    side.put("s", b"s")
    ids["side"] = side.commit("side").id
    ids["two"] = put_and_commit(main, b"2").id
    ids["merge"] = main.merge("side").id
    return ids


def test_expressions_walk_from_a_ref_to_its_ancestors(
    repo: Repository, history: dict[str, str]
) -> None:
    repo.create_tag("v1", "main")
    table = {
        "main": "merge",
        "v1": "merge",
        "main~0": "merge",
        "main^0": "merge",
        "main~": "two",
        "main^": "two",
        "main~1": "two",
        "main^1": "two",
        "main^2": "side",
        "main~2": "one",
        "main^^": "one",
        "main~~": "one",
        "main^2^": "one",
        "main^2~2": "origin",
        "main~3": "origin",
        "side~2": "origin",
        history["merge"] + "^2": "side",
        history["merge"][:6] + "~1": "two",
    }
    assert {text: repo.commit(text).id for text in table} == {
        text: history[name] for text, name in table.items()
    }


def test_expressions_beyond_the_history_are_not_found(
    repo: Repository, history: dict[str, str]
) -> None:
    for text in (
        "main~4",
        "main^3",
        "side^2",
        "main~99999999",
        "main^^^^",
        history["origin"] + "~",
    ):
        with pytest.raises(NotFound):
            repo.commit(text)


def test_what_is_no_expression_is_refused(repo: Repository) -> None:
    for text in ("", "~", "^1", "~1^2", "main~x", "main~1x", "main^-1", "main ~1"):
        with pytest.raises((InvalidInput, NotFound)):
            repo.commit(text)


def test_an_absurd_number_in_an_expression_is_refused(repo: Repository) -> None:
    for number in ("9" * 30, "9" * 5_000):
        for sign in "~^":
            with pytest.raises((InvalidInput, NotFound)):
                repo.commit(f"main{sign}{number}")


def test_the_beginning_of_an_id_must_be_long_enough_and_clear(
    repo: Repository, main: Branch
) -> None:
    first = put_and_commit(main, b"1")
    assert repo.commit(first.id[:6]) == first
    assert repo.commit(first.id) == first
    for text in (first.id[:5], first.id[:6].upper() + "X", first.id + "0"):
        with pytest.raises(NotFound):
            repo.commit(text)
    twin = replace(first, id=first.id[:10] + ("0" if first.id[10] != "0" else "1") * 22)
    with repo._workspace.database.write() as connection:
        row = connection.execute(select(commits).where(commits.c.id == first.id)).mappings().one()
        connection.execute(insert(commits).values({**row, "id": twin.id}))
    with pytest.raises(InvalidInput, match=f"several commits start with {first.id[:10]}"):
        repo.commit(first.id[:10])
    assert repo.commit(first.id[:11]) == first
    assert repo.commit(twin.id[:11]) == twin


def test_a_ref_goes_before_the_beginning_of_an_id(repo: Repository, main: Branch) -> None:
    first = put_and_commit(main, b"1")
    repo.create_branch(first.id[:8], "main~1")
    assert repo.commit(first.id[:8]) == repo.commit("main~1")
    assert repo.commit(first.id[:9]) == first
