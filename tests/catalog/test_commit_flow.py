"""The commit flow: what happens to a commit while others commit, write, reset or condemn."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reclaim.catalog import Branch, Catalog, Repository
from reclaim.catalog.database.schema import CommitState, TokenState
from reclaim.catalog.refs import committing
from reclaim.catalog.refs.commits import Commit
from reclaim.catalog.refs.committing import Draft
from reclaim.catalog.staging import tokens
from reclaim.catalog.staging.partitions import Partition
from reclaim.catalog.workspace import Workspace
from reclaim.errors import DirtyBranch, NothingToCommit, TransactionFailed
from tests.catalog import raw
from tests.conftest import Backend

Hook = Callable[[Callable[[], None]], None]


@pytest.fixture
def before_landing(monkeypatch: pytest.MonkeyPatch) -> Hook:
    """Run something once, between the writing of containers and the last transaction."""

    def install(work: Callable[[], None]) -> None:
        land = committing.land
        left = [work]

        def wrapped(workspace: Workspace, draft: Draft, partition: Partition) -> Commit:
            if left:
                left.pop()()
            return land(workspace, draft, partition)

        monkeypatch.setattr(committing, "land", wrapped)

    return install


def void(_: object) -> None:
    """Drops a result, for hooks that return nothing."""


def test_a_commit_takes_the_sealed_tokens_and_says_so(repo: Repository, main: Branch) -> None:
    main.put("a", b"x")
    commit = main.commit("one", committer="ada", metadata={"k": "v"})
    assert (commit.message, commit.committer, commit.metadata) == ("one", "ada", {"k": "v"})
    assert repo.commit("main") == commit
    assert set(raw.token_states(repo).values()) == {TokenState.OPEN}
    assert raw.staged_paths(repo) == []


def test_a_put_during_a_commit_stays_staged(
    repo: Repository, main: Branch, before_landing: Hook
) -> None:
    main.put("a", b"one")

    def interfere() -> None:
        main.put("a", b"two")
        main.put("b", b"new")

    before_landing(interfere)
    commit = main.commit("one")
    assert repo.at(commit.id).get("a") == b"one"
    assert not repo.at(commit.id).exists("b")
    assert main.get("a") == b"two"
    assert [change.path for change in main.uncommitted()] == ["a", "b"]


def test_changes_stay_visible_while_they_are_being_committed(
    main: Branch, before_landing: Hook
) -> None:
    main.put("a", b"one")
    seen: list[bytes] = []
    before_landing(lambda: seen.append(main.get("a")))
    main.commit("one")
    assert seen == [b"one"]


@pytest.mark.parametrize("how", ["branch", "path", "prefix", "to"])
def test_a_reset_during_a_commit_makes_it_fail(
    repo: Repository, main: Branch, before_landing: Hook, how: str
) -> None:
    head = repo.commit("main").id
    main.put("dir/a", b"one")
    main.put("dir/b", b"one")
    resets: dict[str, Callable[[], object]] = {
        "branch": main.reset,
        "path": lambda: main.reset_path("dir/a"),
        "prefix": lambda: main.reset_prefix("dir/"),
        "to": lambda: main.reset_to(head),
    }
    before_landing(lambda: void(resets[how]()))
    with pytest.raises(TransactionFailed, match="were reset"):
        main.commit("one")
    assert repo.commit("main").id == head
    assert not main.exists("dir/a")
    assert main.exists("dir/b") == (how == "path")


def test_a_branch_deleted_during_a_commit_makes_it_fail(
    repo: Repository, before_landing: Hook
) -> None:
    other = repo.create_branch("other")
    other.put("a", b"x")
    before_landing(lambda: repo.delete_branch("other"))
    with pytest.raises(Exception, match=r"no branch|deleted"):
        other.commit("one")
    assert [ref.name for ref in repo.branches()] == ["main"]


def test_a_branch_deleted_and_made_again_does_not_get_the_commit(
    repo: Repository, before_landing: Hook
) -> None:
    other = repo.create_branch("other")
    other.put("a", b"x")

    def replace() -> None:
        repo.delete_branch("other")
        repo.create_branch("other")

    before_landing(replace)
    with pytest.raises(TransactionFailed):
        other.commit("one")
    assert not other.exists("a")


def test_two_commits_at_once_lose_nothing(
    repo: Repository, main: Branch, before_landing: Hook
) -> None:
    main.put("a", b"one")

    def second() -> None:
        main.put("b", b"two")
        main.commit("second")

    before_landing(second)
    with pytest.raises(TransactionFailed, match="were committed by") as caught:
        main.commit("first")
    head = repo.commit("main")
    assert caught.value.details["commit"] == head.id
    assert repo.at(head.id).get("a") == b"one"
    assert repo.at(head.id).get("b") == b"two"
    assert [commit.message for commit in repo.log()] == ["second", "Repository created"]


def test_a_commit_that_crashed_is_finished_by_the_next(
    backend: Backend, repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    main.put("a", b"one")
    main.put("b", b"one")

    def crash(*_: object) -> Commit:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(committing, "land", crash)
        with pytest.raises(KeyboardInterrupt):
            main.commit("lost")
    assert TokenState.SEALED in raw.token_states(repo).values()
    assert main.get("a") == b"one"
    again = backend.open().repository("sales").branch("main")
    again.put("b", b"two")
    again.delete("a")
    commit = again.commit("again")
    assert not repo.at(commit.id).exists("a")
    assert repo.at(commit.id).get("b") == b"two"


def test_sealed_rows_are_not_touched_by_put_delete_and_move(
    repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("a", "b", "c"):
        main.put(path, b"old")
    with repo._workspace.database.write() as connection:
        view = tokens.lock_branch(connection, repo.uid, "main")
        sealed = tokens.seal(connection, view, "partition").sealed[0][0]
    main.put("a", b"new")
    main.delete("b")
    main.move("c", "d")
    rows = [path for token, path in raw.staged_paths(repo) if token == sealed]
    assert rows == ["a", "b", "c"]
    assert sorted(entry.path for entry in main.entries()) == ["a", "d"]


def test_a_head_that_moved_to_the_same_tokens_is_noticed(
    repo: Repository, main: Branch, before_landing: Hook
) -> None:
    """The head is checked as well as the tokens: here only the head changes."""
    from sqlalchemy import update

    from reclaim.catalog.database.schema import branches

    main.put("base", b"x")
    first = main.commit("first")
    main.put("base", b"y")
    main.commit("second")
    main.put("a", b"z")

    def move_head() -> None:
        with repo._workspace.database.write() as connection:
            connection.execute(update(branches).values(head=first.id))

    before_landing(move_head)
    landed = main.commit("third")
    assert landed.parents == (first.id,)
    assert repo.at(landed.id).get("base") == b"x"


@pytest.mark.parametrize("state", [CommitState.PROVISIONAL, CommitState.CONDEMNED])
def test_a_commit_on_a_condemned_parent_fails(
    repo: Repository, main: Branch, before_landing: Hook, state: CommitState
) -> None:
    main.put("a", b"x")
    head = repo.commit("main").id
    before_landing(lambda: raw.condemn(repo, head, state))
    with pytest.raises(TransactionFailed, match="is being removed by run run-7") as caught:
        main.commit("one")
    assert caught.value.kind == "transaction_failed"
    assert caught.value.exit_code == 4


def test_a_merge_whose_source_is_condemned_fails(
    repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reclaim.catalog.refs import merging

    other = repo.create_branch("other")
    other.put("a", b"x")
    source = other.commit("one").id
    land = committing.land

    def condemned_then_land(workspace: Workspace, draft: Draft, partition: Partition) -> Commit:
        raw.condemn(repo, source)
        return land(workspace, draft, partition)

    monkeypatch.setattr(merging, "land", condemned_then_land)
    with pytest.raises(TransactionFailed, match="is being removed"):
        main.merge("other")
    assert not main.exists("a")


def test_a_revert_whose_source_is_condemned_fails(
    repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reclaim.catalog.refs import merging

    main.put("a", b"one")
    first = main.commit("one")
    main.put("a", b"two")
    main.commit("two")
    land = committing.land

    def condemned_then_land(workspace: Workspace, draft: Draft, partition: Partition) -> Commit:
        raw.condemn(repo, first.id)
        return land(workspace, draft, partition)

    monkeypatch.setattr(merging, "land", condemned_then_land)
    with pytest.raises(TransactionFailed, match="is being removed"):
        main.revert("main")


def test_a_merge_into_a_branch_with_changes_is_refused(repo: Repository, main: Branch) -> None:
    repo.create_branch("other")
    main.put("a", b"x")
    with pytest.raises(DirtyBranch):
        main.merge("other")
    with pytest.raises(DirtyBranch):
        main.revert("main")
    assert main.get("a") == b"x"


def test_a_commit_reuses_ranges_only_from_its_parents(
    repo: Repository, main: Branch, catalog: Catalog
) -> None:
    """The same content as in another commit still gets a fresh container."""
    main.put("a", b"one")
    first = main.commit("one")
    address = main.stat("a").address
    main.put("a", b"two")
    main.commit("two")
    reverted = main.revert("main")
    assert main.stat("a").address == address
    tree = repo._workspace.containers.tree
    old, new = tree(first.metarange).ranges[0], tree(reverted.metarange).ranges[0]
    assert old.digest == new.digest
    assert old.address != new.address


def test_a_merge_reuses_the_ranges_of_both_parents(repo: Repository, main: Branch) -> None:
    other = repo.create_branch("other")
    other.put("a", b"one")
    source = other.commit("one")
    merged = main.merge("other")
    tree = repo._workspace.containers.tree
    assert tree(merged.metarange).ranges == tree(source.metarange).ranges


def test_sealed_changes_that_were_all_reset_are_nothing_to_commit(
    repo: Repository, main: Branch, before_landing: Hook
) -> None:
    main.put("a", b"x")
    before_landing(lambda: main.reset_path("a"))
    with pytest.raises(TransactionFailed):
        main.commit("one")
    with pytest.raises(NothingToCommit):
        main.commit("two")


def test_trouble_with_tidying_up_is_not_the_commits(
    repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reclaim.catalog.staging import cleaner
    from reclaim.errors import DatabaseLocked

    def locked(*_: object, **__: object) -> None:
        raise DatabaseLocked("locked")

    main.put("a", b"x")
    monkeypatch.setattr(cleaner, "clean", locked)
    landed = main.commit("one")
    assert repo.commit("main") == landed
