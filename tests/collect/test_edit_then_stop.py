"""An apply with rules that edited history and stopped: it can be undone, or applied again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reclaim.catalog import locks
from reclaim.catalog.schema import CommitState
from reclaim.errors import Conflict, Partial, PlanRefused, Refused, StorageUnavailable
from reclaim.model import RunState
from reclaim.policy import Policy, from_options
from reclaim.run.plan import Plan
from reclaim.run.ways import Move, Way
from tests.collect.world import At, World, commit_states, leftovers, stepped

OLD: Policy = from_options(older_than="1d")


@pytest.fixture
def log(local: World) -> list[str]:
    """A history of which a policy keeps the tip and deletes a tag."""
    main = local.repo.branch("main")
    for number in range(4):
        main.put("a", f"{number}".encode())
        main.commit(str(number))
        local.clock.advance(hours=1)
    local.repo.create_tag("old", "main~1")
    local.age()
    main.put("a", b"newest")
    main.commit("newest")
    return [commit.id for commit in local.repo.log("main")]


def plan_old(world: World) -> Plan:
    return world.plan(OLD, delete_expired_tags=True, allowed_fraction=1.0)


def fail() -> None:
    raise StorageUnavailable("down")


def stop(world: World, plan: Plan, step: str = "after rewrite") -> None:
    at = At(step, fail)
    with pytest.raises((StorageUnavailable, Partial)):
        world.apply(plan, store=stepped(world.store(), at), step=at)


def test_it_is_undone_like_an_expiration(local: World, log: list[str]) -> None:
    plan = plan_old(local)
    stop(local, plan)
    assert [commit.id for commit in local.repo.log("main")] != log
    undone = local.undo(plan.document.run)
    assert (undone.objects, undone.snapshots, undone.left) == (0, 0, ())
    assert [commit.id for commit in local.repo.log("main")] == log
    assert [tag.commit for tag in local.repo.tags()] == [log[2]]
    assert local.repo.runs()[0].state == RunState.UNDONE
    local.check()
    with pytest.raises(Conflict, match="undone already"):
        local.undo(plan.document.run)
    with pytest.raises(PlanRefused, match="undone"):
        local.apply(plan)


def test_so_is_one_that_died_with_marks(local: World, log: list[str]) -> None:
    plan = plan_old(local)
    store = local.store()

    def die() -> None:
        def gone(*_: object) -> None:
            raise StorageUnavailable("dead")

        store.finish = store.abandon = gone  # type: ignore[assignment, method-assign]
        gone()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locks, "_give_back", lambda *_: None)
        with pytest.raises(StorageUnavailable):
            local.apply(plan, store=stepped(store, At("after mark", die)))
    assert local.repo.runs()[0].state == RunState.STARTED
    assert CommitState.PROVISIONAL in leftovers(local.repo).values()
    with pytest.raises(Conflict):
        local.undo(plan.document.run)
    local.clock.advance(minutes=11)
    assert local.undo(plan.document.run).left == ()
    assert [commit.id for commit in local.repo.log("main")] == log
    assert leftovers(local.repo) == {}
    local.check()


@pytest.mark.parametrize("way", [Move()], ids=["sets aside"])
def test_so_is_one_that_was_to_set_aside(local: World, log: list[str], way: Way) -> None:
    plan = plan_old(local)
    with pytest.raises(StorageUnavailable):
        local.apply(plan, store=stepped(local.store(), At("after rewrite", fail)), way=way)
    assert local.undo(plan.document.run).left == ()
    assert [commit.id for commit in local.repo.log("main")] == log


def test_one_that_condemned_something_cannot_be_undone(local: World, log: list[str]) -> None:
    plan = plan_old(local)
    stop(local, plan, "sweep data")
    with pytest.raises(Refused, match="set nothing aside"):
        local.undo(plan.document.run)
    # Whatever its record says.
    local.store().finish(plan.document.run, RunState.STOPPED, {})
    with pytest.raises(Refused, match="has deleted something"):
        local.undo(plan.document.run)
    assert [commit.id for commit in local.repo.log("main")] != log
    local.apply(plan)
    local.check()


def test_one_that_edited_nothing_has_nothing_to_undo(local: World, log: list[str]) -> None:
    plan = local.plan()
    stop(local, plan, "before close_overdue")
    with pytest.raises(Refused, match="nothing to bring back"):
        local.undo(plan.document.run)
    assert [commit.id for commit in local.repo.log("main")] == log


MADE_ANEW: dict[str, Callable[[World, list[str]], object]] = {
    "where it was": lambda world, log: world.repo.create_tag("old", log[2]),
    "elsewhere": lambda world, log: world.repo.create_tag("old", log[0]),
}


@pytest.mark.parametrize("made", MADE_ANEW)
def test_a_tag_that_was_made_anew_is_somebody_elses(
    local: World, log: list[str], made: str
) -> None:
    """The plan deleted its own; the new one stays, and holds what it names."""
    plan = plan_old(local)
    stop(local, plan)
    assert local.repo.tags() == []
    MADE_ANEW[made](local, log)
    [tag] = local.repo.tags()
    for _ in range(2):
        local.apply(plan)
    assert local.repo.tags() == [tag]
    assert commit_states(local.repo)[tag.commit] == CommitState.LIVE
    local.check()
