"""A history edit is part of every plan and result, and comes back on its own."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reclaim.catalog.database.schema import CommitState
from reclaim.errors import Conflict, PlanRefused, Refused
from reclaim.policy import Policy, from_options
from reclaim.run.apply.applied import Applied
from reclaim.run.gc import collect
from reclaim.run.plan.planning import PlanOptions
from reclaim.run_record import EditCounts, Phase
from tests.collect.helpers.world import At, World, commit_states, opening, stepped, whole
from tests.support.expiring import expire, take_back

LAST: Policy = from_options(keep_last=1)
OLD: Policy = from_options(older_than="1d")


@pytest.fixture
def log(local: World) -> list[str]:
    """Four commits on main, old ones; the newest first."""
    main = local.repo.branch("main")
    for number in range(4):
        main.put("a", f"{number}".encode())
        main.commit(str(number))
        local.clock.advance(hours=1)
    local.age()
    return history(local)


def history(world: World) -> list[str]:
    return [commit.id for commit in world.other().log("main")]


def lease(world: World, commit: str) -> None:
    world.repo.take_lease(commit, holder=f"reader of {commit}", length=timedelta(days=20))


def gc(world: World, policy: Policy = LAST) -> Applied:
    options = PlanOptions(policy=policy, margins=world.margins, allowed_fraction=1.0)
    done = collect(world.store(), world.engine(), options, opener=opening(world.storage))
    assert done.applied is not None
    return done.applied


def state(world: World, run: str) -> str:
    return next(one.phase for one in world.repo.runs() if one.id == run)


def test_a_plan_says_that_it_edits_although_a_lease_keeps_everything(
    local: World, log: list[str]
) -> None:
    lease(local, log[1])
    plan = local.plan(LAST).document
    assert (plan.candidates, plan.dead, plan.expired) == (0, 0, 3)
    assert plan.history is not None
    # All but the tip and the root commit leave the history; the lease has them all.
    assert plan.history.model_dump() == {"reparented": 1, "released": 3, "held": 3}
    assert plan.edits_history


def test_a_plan_without_rules_edits_nothing(local: World, log: list[str]) -> None:
    plan = local.plan().document
    assert plan.history is not None
    assert plan.history.model_dump() == {"reparented": 0, "released": 0, "held": 0}
    assert not plan.edits_history


def test_so_does_the_result_and_the_record(local: World, log: list[str]) -> None:
    lease(local, log[1])
    done = gc(local)
    assert history(local) == [log[0], log[-1]]
    assert done.edit == EditCounts(1, 3)
    assert done.summary()["collected"] == 0
    [run] = local.repo.runs()
    assert run.edit.counts == EditCounts(1, 3)


def test_it_is_undone_on_its_own(local: World, log: list[str]) -> None:
    lease(local, log[1])
    run = gc(local).run
    assert local.undo(run).left == ()
    assert history(local) == log
    assert state(local, run) == Phase.UNDONE
    with pytest.raises(Conflict, match="undone already"):
        local.undo(run)
    local.check()


def test_a_plan_whose_edit_was_undone_is_not_applied_again(local: World, log: list[str]) -> None:
    lease(local, log[1])
    plan = local.plan(LAST)
    local.apply(plan)
    local.undo(plan.document.run)
    with pytest.raises(PlanRefused, match="undone since"):
        local.apply(plan)
    assert history(local) == log


def test_what_is_gone_stays_gone_and_is_said(local: World, log: list[str]) -> None:
    """One branch lost commits for good, of the other all are held."""
    local.repo.create_branch("other", log[2])
    other = local.repo.branch("other")
    for number in range(2):
        other.put("b", f"{number}".encode())
        other.commit(f"other {number}")
        local.clock.advance(hours=1)
    held = [commit.id for commit in local.repo.log("other")]
    lease(local, held[1])
    local.age()
    done = gc(local)
    assert done.collected == 1
    left = local.undo(done.run).left
    assert left == (f"the parents of commit {log[0]}: {log[1]} is gone",)
    assert [commit.id for commit in local.other().log("other")] == held
    assert history(local) == [log[0], log[-1]]
    assert state(local, done.run) == Phase.UNDONE
    assert commit_states(local.repo)[log[1]] == CommitState.COLLECTED
    for commit in held:
        whole(local.other(), commit)
    local.quiet()


def test_nothing_is_undone_of_which_nothing_is_left(local: World, log: list[str]) -> None:
    done = gc(local)
    assert done.collected == 3
    with pytest.raises(Refused, match=f"put nothing in quarantine.*{log[1]} is gone"):
        local.undo(done.run)
    assert state(local, done.run) == Phase.DONE


def test_a_run_without_an_edit_is_not_undone(local: World, log: list[str]) -> None:
    local.repo.create_branch("dead", "main").put("x", b"x")
    local.repo.branch("dead").commit("dead")
    local.repo.delete_branch("dead")
    local.age()
    run = gc(local, from_options(keep_last=9)).run
    with pytest.raises(Refused, match="objects it deleted cannot be restored"):
        local.undo(run)


def test_an_older_expiration_waits_for_it(local: World, log: list[str]) -> None:
    local.repo.create_tag("held", log[2])
    older = expire(local.repo, LAST)
    assert older is not None
    assert history(local) == [log[0], log[2], log[-1]]
    local.clock.advance(minutes=1)
    for commit in log[1:4]:
        lease(local, commit)
    local.repo.delete_tag("held")
    newer = gc(local).run
    assert history(local) == [log[0], log[-1]]
    with pytest.raises(Refused, match=newer):
        take_back(local.repo, older.id)
    local.undo(newer)
    take_back(local.repo, older.id)
    assert history(local) == log


def test_an_older_expiration_does_not_wait_for_what_is_gone(local: World, log: list[str]) -> None:
    local.repo.create_tag("held", log[2])
    older = expire(local.repo, LAST)
    assert older is not None
    local.clock.advance(minutes=1)
    local.repo.delete_tag("held")
    assert gc(local).collected == 3
    assert any(log[0] in one for one in take_back(local.repo, older.id))
    assert state(local, older.id) == Phase.UNDONE
    local.check()


def test_a_run_that_stopped_says_that_its_edit_is_taken_back(local: World, log: list[str]) -> None:
    lease(local, log[1])
    plan = local.plan(LAST)

    def fail() -> None:
        raise OSError("no")

    at = At("before promote", fail)
    with pytest.raises(OSError, match="no"):
        local.apply(plan, store=stepped(local.store(), at), step=at)
    [run] = local.repo.runs()
    assert (run.phase, run.edit.counts.reparented) == (Phase.STOPPED, 0)
    assert history(local) == log
    assert local.apply(plan).edit == EditCounts(1, 3)
    # Again: nothing more to edit, and what was is still told.
    assert local.apply(plan).edit == EditCounts(1, 3)
