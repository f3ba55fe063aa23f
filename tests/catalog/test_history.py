"""Commit, log, diff, merge, revert and reset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from reclaim.catalog import (
    Branch,
    Change,
    ChangeKind,
    Commit,
    Import,
    Reader,
    Repository,
    Side,
    ranges,
    rewrite,
    tokens,
)
from reclaim.catalog.ranges import RangeInfo
from reclaim.catalog.schema import commits
from reclaim.errors import (
    DirtyBranch,
    InvalidInput,
    MergeConflict,
    NotFound,
    NothingToCommit,
    TransactionFailed,
)
from reclaim.testing import FakeClock

ADDED, REMOVED, CHANGED = ChangeKind.ADDED, ChangeKind.REMOVED, ChangeKind.CHANGED
_numbers = count()


def stage(branch: Branch, contents: Mapping[str, str]) -> None:
    """Stage entries that point outside, so that no bytes are needed."""
    branch.stage_many([Import(path, f"s3://outside/{text}", 1) for path, text in contents.items()])


def save(branch: Branch, contents: Mapping[str, str | None], message: str = "next") -> Commit:
    """Commit some contents; None deletes."""
    stage(branch, {path: text for path, text in contents.items() if text})
    branch.delete_many([path for path, text in contents.items() if text is None])
    return branch.commit(message, allow_empty=True)


def shown(reader: Reader) -> dict[str, str]:
    return {entry.path: entry.address.rpartition("/")[2] for entry in reader.entries()}


def kinds(changes: Iterable[Change]) -> dict[str, ChangeKind]:
    found = list(changes)
    assert [change.path for change in found] == sorted(change.path for change in found)
    return {change.path: change.kind for change in found}


def mark(repo: Repository, commit: Commit) -> None:
    """What an expiration leaves on a commit whose parents it replaced."""
    with repo._workspace.database.write() as connection:
        connection.execute(
            update(commits)
            .where(commits.c.repo_uid == repo.uid, commits.c.id == commit.id)
            .values(marked=True)
        )


def seal(repo: Repository, branch: str = "main") -> None:
    """What a commit that crashed half-way leaves behind."""
    repo._workspace.database.transact(
        lambda connection: tokens.seal(connection, tokens.lock_branch(connection, repo.uid, branch))
    )


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


# Diff


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


# Merge


@pytest.fixture
def side(repo: Repository, main: Branch) -> Branch:
    """A branch beside main; both start with a, b and c."""
    save(main, {"a": "0", "b": "0", "c": "0"})
    return repo.create_branch("side")


def test_a_merge_takes_what_only_one_side_changed(
    repo: Repository, main: Branch, side: Branch
) -> None:
    ours = save(main, {"a": "main", "new-main": "1", "old": "1"})
    theirs = save(side, {"b": "side", "c": None, "new-side": "1"})
    merged = main.merge("side", message="Both", committer="ann", metadata={"k": "v"})
    assert shown(main) == {"a": "main", "b": "side", "new-main": "1", "new-side": "1", "old": "1"}
    assert merged.parents == (ours.id, theirs.id)
    assert (merged.message, merged.committer, merged.metadata) == ("Both", "ann", {"k": "v"})
    assert repo.commit("main") == merged
    assert shown(side) == {"a": "0", "b": "side", "new-side": "1"}
    assert repo.commit("side") == theirs
    assert merged.written_at > max(ours.written_at, theirs.written_at)


def test_branches_that_share_only_the_first_commit_can_be_merged(
    repo: Repository, main: Branch
) -> None:
    other = repo.create_branch("other")
    save(main, {"a": "main"})
    save(other, {"b": "other"})
    main.merge("other")
    assert shown(main) == {"a": "main", "b": "other"}


def test_a_merge_has_a_message_of_its_own(main: Branch, side: Branch) -> None:
    save(side, {"a": "1"})
    assert main.merge("side").message == "Merge side into main"


def test_a_change_that_both_sides_made_is_no_conflict(main: Branch, side: Branch) -> None:
    change = {"a": "same", "b": None, "d": "same"}
    save(main, change)
    save(side, change)
    main.merge("side")
    assert shown(main) == {"a": "same", "c": "0", "d": "same"}


def test_the_same_bytes_uploaded_on_both_sides_are_no_conflict(main: Branch, side: Branch) -> None:
    ours, theirs = main.put("a", b"same"), side.put("a", b"same")
    main.commit("ours")
    side.commit("theirs")
    assert ours.address != theirs.address
    main.merge("side")
    assert main.stat("a").address == ours.address


def test_a_path_changed_differently_is_a_conflict(
    repo: Repository, main: Branch, side: Branch
) -> None:
    ours = save(main, {"a": "main", "b": None, "c": "main", "d": "main"})
    save(side, {"a": "side", "b": "side", "c": None, "d": "side", "e": "side"})
    with pytest.raises(MergeConflict, match=r"^4 path.* a, b, c, d$") as error:
        main.merge("side")
    assert error.value.details == {"count": 4, "paths": ["a", "b", "c", "d"]}
    assert repo.commit("main") == ours
    assert shown(main) == {"a": "main", "c": "main", "d": "main"}


@pytest.mark.parametrize("prefer", Side)
def test_a_conflict_is_decided_by_the_preferred_side(
    main: Branch, side: Branch, prefer: Side
) -> None:
    save(main, {"a": "main", "b": None, "c": "main", "d": "main", "ours": "1"})
    save(side, {"a": "side", "b": "side", "c": None, "d": "side", "theirs": "1"})
    main.merge("side", prefer=prefer)
    both = {"ours": "1", "theirs": "1"}
    if prefer is Side.SOURCE:
        assert shown(main) == {"a": "side", "b": "side", "d": "side", **both}
    else:
        assert shown(main) == {"a": "main", "c": "main", "d": "main", **both}


def test_many_conflicts_are_counted_and_some_are_named(main: Branch, side: Branch) -> None:
    save(main, {f"{n:02d}": "main" for n in range(30)})
    save(side, {f"{n:02d}": "side" for n in range(30)})
    with pytest.raises(MergeConflict, match=r"^30 path.* and 25 more") as error:
        main.merge("side")
    assert error.value.details["count"] == 30
    assert len(error.value.details["paths"]) == 20


def test_a_branch_behind_its_source_gets_a_merge_commit(
    repo: Repository, main: Branch, side: Branch
) -> None:
    theirs = save(side, {"a": "side", "b": None})
    ours = repo.commit("main")
    merged = main.merge("side")
    assert merged.parents == (ours.id, theirs.id)
    assert shown(main) == shown(side) == {"a": "side", "c": "0"}


def test_a_source_that_is_merged_already_changes_nothing(
    repo: Repository, main: Branch, side: Branch
) -> None:
    assert main.merge("side") == repo.commit("main")
    assert main.merge("main") == repo.commit("main")
    save(side, {"a": "side"})
    merged = main.merge("side")
    assert main.merge("side") == merged
    assert main.merge("main~1") == merged
    assert repo.commit("main") == merged


def test_what_was_merged_once_is_not_merged_again(main: Branch, side: Branch) -> None:
    save(side, {"a": "side"})
    main.merge("side")
    save(main, {"a": "later"})
    save(side, {"b": "side"})
    main.merge("side")
    assert shown(main) == {"a": "later", "b": "side", "c": "0"}


def test_a_branch_with_changes_is_not_merged_into(
    repo: Repository, main: Branch, side: Branch
) -> None:
    save(side, {"a": "side"})
    stage(main, {"x": "1"})
    with pytest.raises(DirtyBranch, match="main has uncommitted changes"):
        main.merge("side")
    seal(repo)
    with pytest.raises(DirtyBranch):
        main.merge("side")
    main.reset()
    # What is staged on the source is not part of it.
    stage(side, {"b": "staged"})
    main.merge("side")
    assert shown(main) == {"a": "side", "b": "0", "c": "0"}


def test_a_merge_of_what_is_not_there_is_refused(
    repo: Repository, main: Branch, side: Branch
) -> None:
    with pytest.raises(NotFound):
        main.merge("nowhere")
    with pytest.raises(NotFound, match="no branch 'nope'"):
        repo.branch("nope").merge("side")


def test_any_ref_can_be_merged(repo: Repository, main: Branch, side: Branch) -> None:
    one = save(side, {"a": "1"})
    save(side, {"a": "2"})
    repo.create_tag("v1", one.id)
    main.merge("v1")
    assert shown(main)["a"] == "1"
    main.merge("side~0")
    assert shown(main)["a"] == "2"


def test_branches_that_merged_each_other_can_be_merged_again(
    repo: Repository, main: Branch, side: Branch, clock: FakeClock
) -> None:
    """Criss-cross: there are two newest common commits, and neither is an ancestor of the other."""
    ours = save(main, {"a": "main"})
    clock.advance(seconds=1)
    theirs = save(side, {"b": "side"})
    main.merge(theirs.id)
    side.merge(ours.id)
    assert repo.merge_base("main", "side") == theirs
    save(main, {"c": "main"})
    save(side, {"d": "side"})
    main.merge("side")
    assert shown(main) == {"a": "main", "b": "side", "c": "main", "d": "side"}


def test_the_base_is_the_newest_commit_of_both(
    repo: Repository, main: Branch, side: Branch
) -> None:
    fork = repo.commit("main")
    assert repo.merge_base("main", "side") == fork
    save(main, {"a": "1"})
    theirs = save(side, {"b": "1"})
    assert repo.merge_base("main", "side") == fork
    main.merge("side")
    assert repo.merge_base("main", "side") == repo.merge_base("side", "main") == theirs
    assert repo.merge_base("main", "main~2") == fork


@pytest.mark.parametrize("where", ["source", "target", "base"])
def test_a_base_found_through_a_marked_commit_is_not_trusted(
    repo: Repository, main: Branch, side: Branch, where: str
) -> None:
    fork = repo.commit("main")
    ours = save(main, {"ours": "1"})
    theirs = save(side, {"a": "side", "b": None, "theirs": "1"})
    mark(repo, {"source": theirs, "target": ours, "base": fork}[where])
    merged = {"a": "side", "c": "0", "ours": "1", "theirs": "1"}
    if where == "base":
        # Its own parents were replaced; what came after it is known.
        main.merge("side")
        assert shown(main) == merged
        return
    with pytest.raises(MergeConflict) as error:
        main.merge("side")
    assert error.value.details["paths"] == ["a", "b", "ours", "theirs"]
    before = shown(main)
    main.merge("side", prefer=Side.TARGET)
    assert shown(main) == before
    main.reset_to("main~1")
    main.merge("side", prefer=Side.SOURCE)
    assert shown(main) == shown(side)


def test_without_a_base_every_difference_is_a_conflict(
    repo: Repository, main: Branch, side: Branch
) -> None:
    """An expiration may leave two trees that share nothing."""
    save(main, {"a": "main"})
    theirs = save(side, {"b": "side"})
    with repo._workspace.database.write() as connection:
        connection.execute(update(commits).where(commits.c.id == theirs.id).values(parents="[]"))
    assert repo.merge_base("main", "side") is None
    with pytest.raises(MergeConflict) as error:
        main.merge("side")
    assert error.value.details["paths"] == ["a", "b"]
    main.merge("side", prefer=Side.SOURCE)
    assert shown(main) == shown(side)


def test_a_merge_reuses_the_ranges_of_both_parents(
    repo: Repository, main: Branch, side: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "TARGET_ROWS", 8)
    save(main, {f"a{n:03d}": "1" for n in range(100)})
    side.merge("main")
    save(main, {"a010": "main"})
    save(side, {"a090": "side"})
    merged = main.merge("side")

    def held(commit: Commit) -> set[str]:
        tree = repo._workspace.containers.tree(commit.metarange)
        return {info.address for info in tree.ranges}

    parents = [repo.commit(parent) for parent in merged.parents]
    assert held(merged) <= held(parents[0]) | held(parents[1])


# Revert


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
    with pytest.raises(InvalidInput, match="is the first one"):
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


# Reset


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
    real = rewrite.rewrite

    def slow(*args: Any, **kwargs: Any) -> tuple[list[RangeInfo], str]:
        done = real(*args, **kwargs)
        for reset in resets:
            reset("a")
        return done

    monkeypatch.setattr("reclaim.catalog.committing.rewrite", slow)
    with pytest.raises(TransactionFailed, match="were reset"):
        main.commit("too late")
    assert shown(main) == {"b": "1"}
    main.commit("the rest")
    assert shown(main) == {"b": "1"}


# Merge against a plain dict, with ranges of about three rows


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "TARGET_ROWS", 3)
    for module in (ranges, rewrite):
        monkeypatch.setattr(module, "MAX_ROWS", 6)
    monkeypatch.setattr(rewrite, "BATCH", 5)


PATHS = st.sampled_from([f"{a}/{b}" for a in "abé" for b in "01234567"])
TREES = st.dictionaries(PATHS, st.sampled_from("xyz"), max_size=20)
EDITS = st.dictionaries(PATHS, st.sampled_from([None, "x", "y", "z"]), max_size=8)


def applied(tree: Mapping[str, str], edits: Mapping[str, str | None]) -> dict[str, str]:
    return {path: text for path, text in {**tree, **edits}.items() if text}


def three_way(
    base: Mapping[str, str], ours: Mapping[str, str], theirs: Mapping[str, str]
) -> tuple[dict[str, str | None], list[str]]:
    """What a merge is, said plainly: the changes to ours, and the paths in conflict."""
    changes: dict[str, str | None] = {}
    conflicts = []
    for path in sorted({*base, *ours, *theirs}):
        was, mine, other = base.get(path), ours.get(path), theirs.get(path)
        if other in (was, mine):
            continue
        changes[path] = other
        if mine != was:
            conflicts.append(path)
    return changes, conflicts


@pytest.mark.usefixtures("small")
@settings(max_examples=25)
@given(base=TREES, left=EDITS, right=EDITS, prefer=st.sampled_from([None, *Side]))
@example(
    base={"a/0": "x", "a/1": "x"},
    left={"a/0": None, "a/1": "y"},
    right={"a/0": "y", "a/1": None},
    prefer=Side.SOURCE,
)
def test_a_merge_is_what_a_dict_would_say(
    repo: Repository,
    base: dict[str, str],
    left: dict[str, str | None],
    right: dict[str, str | None],
    prefer: Side | None,
) -> None:
    number = next(_numbers)
    target = repo.create_branch(f"target{number}", "main")
    save(target, base)
    source = repo.create_branch(f"source{number}", target.name)
    ours, theirs = applied(base, left), applied(base, right)
    save(target, {path: text for path, text in left.items() if text or path in base})
    save(source, {path: text for path, text in right.items() if text or path in base})
    assert shown(target) == ours
    assert shown(source) == theirs
    assert kinds(repo.diff(target.name, source.name)) == {
        path: CHANGED if path in ours and path in theirs else ADDED if path in theirs else REMOVED
        for path in {*ours, *theirs}
        if ours.get(path) != theirs.get(path)
    }
    changes, conflicts = three_way(base, ours, theirs)
    if conflicts and prefer is None:
        with pytest.raises(MergeConflict) as error:
            target.merge(source.name)
        assert error.value.details["paths"] == conflicts
        assert shown(target) == ours
        return
    target.merge(source.name, prefer=prefer)
    if prefer is Side.TARGET:
        changes = {path: text for path, text in changes.items() if path not in conflicts}
    assert shown(target) == applied(ours, changes)
    assert repo.commit(f"{target.name}^2") == repo.commit(source.name)


def test_a_side_may_be_written_as_text(repo: Repository, main: Branch) -> None:
    save(main, {"a": "0"})
    other = repo.create_branch("other")
    save(other, {"a": "theirs"})
    save(main, {"a": "ours"})
    with pytest.raises(InvalidInput, match="not a side"):
        main.merge("other", prefer="theirs")
    main.merge("other", prefer="target")
    assert shown(main) == {"a": "ours"}
