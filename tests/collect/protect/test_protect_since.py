"""What the setting ``protect`` keeps by paths that came between a plan and its apply."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from reclaim.errors import Conflict, PlanRefused
from reclaim.run.lifecycle import promotion
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.record.checkpoints import Mode
from reclaim.run.roots.protection import hold_protected
from reclaim.run.sweep.removal import MoveToQuarantine
from tests.collect.helpers.uncommitted import address, settle
from tests.collect.helpers.world import At, World
from tests.collect.protect.test_protect import memory_files, protect
from tests.lifecycle.logs import LOGS
from tests.lifecycle.ruled import plan_rules

PLANS: dict[str, Callable[[World], WrittenPlan]] = {
    "plan": lambda world: world.plan(allowed_fraction=1.0),
    "uncommitted": lambda world: world.uncommitted(Mode.FULL, allowed_fraction=1.0),
    "rules": lambda world: plan_rules(world, LOGS),
}
KINDS = pytest.mark.parametrize("kind", PLANS)


def old_log(world: World, kind: str) -> tuple[str, str]:
    """A log that goes by the next plan of a kind; returns its address and a commit that has it."""
    protect(world)
    main = world.repo.branch("main")
    for number in range(6):
        main.put(f"data/{number}", b"data")
    main.commit("data")
    branch = main if kind == "rules" else world.repo.create_branch("work", "main")
    branch.put("logs/x", b"precious")
    log, commit = address(branch, "logs/x"), branch.commit("a log").id
    if kind != "rules":
        world.repo.delete_branch("work")
    settle(world)
    world.clock.advance(days=7)
    return log, commit


def copy_and_delete(world: World, commit: str) -> None:
    """A protected path for the log, on a branch that is gone at once."""
    branch = world.repo.create_branch("again", commit)
    branch.copy("logs/x", "raw/x")
    branch.commit("raw")
    world.repo.delete_branch("again")


@KINDS
def test_a_commit_that_came_and_went_since_the_plan_tells(local: World, kind: str) -> None:
    log, commit = old_log(local, kind)
    plan = PLANS[kind](local)
    assert log in local.candidates(plan)
    copy_and_delete(local, commit)
    local.apply(plan)
    assert log in local.there()


def test_what_another_run_remembered_since_the_plan_counts(local: World) -> None:
    log, commit = old_log(local, "rules")
    plan = PLANS["rules"](local)
    copy_and_delete(local, commit)
    settle(local)
    local.apply(local.plan(allowed_fraction=1.0))
    assert memory_files(local)
    local.apply(plan)
    assert log in local.there()


def test_rules_ask_dead_commits(local: World) -> None:
    log, commit = old_log(local, "rules")
    copy_and_delete(local, commit)
    assert log not in local.candidates(PLANS["rules"](local))


@KINDS
def test_a_memory_that_no_record_tells_of_stops_every_plan(local: World, kind: str) -> None:
    """The records are older than it, as those of a restored database are."""
    old_log(local, kind)
    prefix = f"repos/{local.repo.uid}/_reclaim/protected"
    local.storage.put(f"{prefix}/0123456789abcdef/part.parquet", b"")
    with pytest.raises(PlanRefused, match="has no record of"):
        PLANS[kind](local)


@pytest.mark.parametrize("moment", ["before claims", "after the last read"])
@pytest.mark.parametrize("how", ["a glob", "a staged path"])
def test_what_is_protected_while_rules_are_confirmed_stays(
    local: World, moment: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, _ = old_log(local, "rules")
    plan = PLANS["rules"](local)
    done: list[str] = []

    def interfere() -> None:
        if done:
            return
        done.append(how)
        if how == "a glob":
            local.other().change_settings(protect=("raw/*", "logs/*"))
            return
        main = local.other().branch("main")
        # What is claimed by then cannot be staged any more.
        with suppress(Conflict):
            main.copy("logs/x", "raw/x")
            main.reset()

    def interrupted(*args: Any, **named: Any) -> Any:
        interfere()
        return hold_protected(*args, **named)

    with suppress(PlanRefused):
        if moment == "before claims":
            local.apply(plan, step=At("confirm", interfere))
        else:
            monkeypatch.setattr(promotion, "hold_protected", interrupted)
            local.apply(plan)
    assert done
    # Once claims are closed, nobody can stage it any more.
    assert log in local.there() or (how, moment) == ("a staged path", "after the last read")


def test_a_memory_that_an_undone_run_gave_up_is_still_there(local: World) -> None:
    log, commit = old_log(local, "plan")
    copy_and_delete(local, commit)
    settle(local)
    local.apply(local.plan(allowed_fraction=1.0))
    local.repo.change_settings(protect=())
    settle(local)
    run = local.apply(local.plan(allowed_fraction=1.0), removal=MoveToQuarantine()).run
    assert log not in local.there()
    protect(local)
    local.undo(run)
    settle(local)
    with suppress(PlanRefused):
        local.apply(local.plan(allowed_fraction=1.0))
    assert log in local.there()
