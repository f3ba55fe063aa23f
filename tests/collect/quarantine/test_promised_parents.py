"""Parents of commits that are promised to come back."""

from __future__ import annotations

import pytest
from sqlalchemy import delete

from reclaim.catalog.database.schema import CommitState, run_edits
from reclaim.engine.tasks.parts import read_part
from reclaim.errors import Gone, Partial
from reclaim.policy import Policy, from_options
from reclaim.run.gc import collect
from reclaim.run.plan.planning import PlanOptions
from reclaim.run.sweep.removal import MoveToQuarantine
from tests.collect.helpers.older import heedless
from tests.collect.helpers.promised_history import (
    DAY,
    MOVE,
    ONE,
    REMOVALS,
    apply_all,
    history,
    leased_history,
)
from tests.collect.helpers.world import (
    NAME,
    World,
    commit_states,
    opening,
    whole,
)


def parent_and_child(world: World) -> tuple[str, str, dict[str, bytes]]:
    """A commit that main has passed, and a dead child of it that shares nothing with it."""
    with world.opened() as catalog:
        repo = catalog.repository(NAME)
        main = repo.branch("main")
        main.put("p", b"the parent's own")
        parent = main.commit("parent").id
        files = whole(repo, parent)
        world.clock.advance(hours=1)
        side = repo.create_branch("side", "main")
        side.delete("p")
        side.put("x", b"the child's own")
        child = side.commit("child").id
        main.delete("p")
        for number in range(2):
            world.clock.advance(hours=1)
            main.put("q", str(number).encode())
            main.commit(str(number))
        repo.delete_branch("side")
    world.age()
    return parent, child, files


@pytest.mark.parametrize("later", REMOVALS)
def test_the_parent_of_a_promised_commit_stays(world: World, later: str) -> None:
    parent, child, files = parent_and_child(world)
    run = apply_all(world, removal=MoveToQuarantine(30 * DAY))
    apply_all(world, ONE, REMOVALS[later])
    world.clock.advance(hours=2)
    world.purge()
    assert commit_states(world.repo)[parent] == CommitState.LIVE
    assert world.undo(run).snapshots == 1
    assert [commit.id for commit in world.other().log(child)][:2] == [child, parent]
    assert whole(world.other(), parent) == files
    # When the window is over, it goes like anything else.
    world.clock.advance(days=30)
    world.age()
    apply_all(world)
    assert commit_states(world.repo)[parent] == CommitState.COLLECTED


@pytest.mark.parametrize("later", REMOVALS)
def test_a_commit_comes_back_although_its_parent_is_gone(world: World, later: str) -> None:
    parent, child, _ = parent_and_child(world)
    run = apply_all(world, removal=MoveToQuarantine(30 * DAY))
    with heedless():
        apply_all(world, ONE, REMOVALS[later])
    world.clock.advance(hours=2)
    world.purge()
    undone = world.undo(run)
    assert undone.snapshots == 1
    assert any(child in sentence and parent in sentence for sentence in undone.left)
    assert whole(world.other(), child) == {"x": b"the child's own"}
    # On top of the first commit of all, which the parent stood on.
    assert [commit.id for commit in world.other().log(child)] == [child, history(world, "main")[-1]]
    with pytest.raises(Gone):
        world.other().commit(parent)
    world.quiet()


def test_a_commit_waits_for_a_parent_that_another_run_has(local: World) -> None:
    parent, child, files = parent_and_child(local)
    first = apply_all(local, removal=MoveToQuarantine(30 * DAY))
    with heedless():
        second = apply_all(local, ONE, MOVE)
    with pytest.raises(Partial, match=f"commit {child}: its parent {parent} is missing"):
        local.undo(first)
    local.undo(second)
    assert local.undo(first).snapshots == 1
    assert [commit.id for commit in local.other().log(child)][:2] == [child, parent]
    assert whole(local.other(), parent) == files


@pytest.mark.parametrize("leased", [1, 3], ids=["parent", "ancestor"])
def test_what_an_edit_would_give_back_as_parents_stays(local: World, leased: int) -> None:
    """A lease spared it from the run that edited, and is over."""
    files = leased_history(local, leased)
    plan = local.plan(from_options(keep_last=1), allowed_fraction=1.0)
    run = local.apply(plan, removal=MoveToQuarantine(30 * DAY)).run
    local.clock.advance(hours=3)
    options = PlanOptions(margins=local.margins, allowed_fraction=1.0)
    collect(local.store(), local.engine(), options, opener=opening(local.storage))
    assert local.undo(run).left == ()
    for commit, shown in files.items():
        assert whole(local.other(), commit) == shown
    assert [commit.id for commit in local.other().log("main")] == list(files)


def test_what_a_deleted_tag_named_stays(local: World) -> None:
    """A lease spared the commit from the run that deleted its tag, and is over."""
    files = leased_history(local, 1)
    commit = list(files)[1]
    local.repo.create_tag("old", commit)
    plan = local.plan(from_options(older_than="3d"), allowed_fraction=1.0, delete_expired_tags=True)
    run = local.apply(plan, removal=MoveToQuarantine(30 * DAY)).run
    assert local.other().tags() == []
    # As if its tag alone had named it.
    with local.repo._workspace.database.write() as connection:
        connection.execute(delete(run_edits).where(run_edits.c.run_id == run))
    local.clock.advance(hours=3)
    apply_all(local)
    local.undo(run)
    assert [tag.commit for tag in local.other().tags()] == [commit]


@pytest.mark.parametrize("policy", [Policy(), ONE], ids=["no rules", "rules"])
def test_a_plan_says_that_a_run_needs_a_commit(local: World, policy: Policy) -> None:
    parent, _, _ = parent_and_child(local)
    apply_all(local, removal=MOVE)
    apply_all(local, ONE)
    plan = local.plan(policy, allowed_fraction=1.0)
    rows = read_part(local.storage, plan.document.snapshots.part).to_pylist()
    (reasons,) = (row["reasons"] for row in rows if row["id"] == parent)
    assert "a run that can be undone needs it" in reasons
