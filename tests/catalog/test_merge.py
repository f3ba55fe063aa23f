"""Merges: what is taken, what is a conflict, and the base of both sides."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from reclaim.catalog import Branch, Commit, Repository, Side
from reclaim.catalog.content import ranges
from reclaim.catalog.database.schema import commits
from reclaim.errors import DirtyBranch, InvalidInput, MergeConflict, NotFound
from reclaim.testing import FakeClock
from tests.catalog.saving import mark, save, seal, shown, stage


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


def test_a_side_may_be_written_as_text(repo: Repository, main: Branch) -> None:
    save(main, {"a": "0"})
    other = repo.create_branch("other")
    save(other, {"a": "theirs"})
    save(main, {"a": "ours"})
    with pytest.raises(InvalidInput, match="not a side"):
        main.merge("other", prefer="theirs")
    main.merge("other", prefer="target")
    assert shown(main) == {"a": "ours"}
