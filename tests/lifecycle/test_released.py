"""An expiration that can be undone, and rules: what it took out of history is held till a
collection takes it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reclaim.errors import Gone
from reclaim.policy import from_options
from reclaim.stores.observation import Margins
from tests.collect.helpers.world import World
from tests.lifecycle.logs import LOGS
from tests.lifecycle.ruled import held, plan_rules
from tests.support import expiring
from tests.support.expiring import delete_refs, take_back


def moved(world: World) -> str:
    """What lies under another path in the first commit than in all others; returns its address."""
    world.margins = Margins(objects=timedelta(0))
    main = world.repo.branch("main")
    address = main.put("kept/x", b"precious").address
    main.commit("one")
    world.clock.advance(days=1)
    main.move("kept/x", "logs/x")
    main.commit("two")
    for number in range(4):
        world.clock.advance(days=1)
        main.put(f"data/{number}", b"data")
        main.commit(f"day {number}")
    return address


def expire(world: World) -> str:
    repo = world.other()
    run = expiring.expire(repo, from_options(keep_last=5))
    assert run is not None
    return run.id


@pytest.mark.parametrize("late", [False, True], ids=["before the plan", "after the plan"])
def test_what_an_expiration_took_out_of_history_is_held(local: World, late: bool) -> None:
    address = moved(local)
    first = next(commit.id for commit in local.other().log("main") if commit.message == "one")
    early = plan_rules(local, LOGS) if late else None
    run = expire(local)
    plan = early or plan_rules(local, LOGS)
    assert not local.candidates(plan)
    assert held(local, plan) == {address: ["kept/x on the branch main"]} if late else True
    local.apply(plan)
    later = plan_rules(local, LOGS)
    assert not local.candidates(later)
    assert "a run that can be undone" in str(held(local, later)[address])
    assert take_back(local.other(), run) == []
    assert local.other().at(first).get("kept/x") == b"precious"
    # A collection ends it, as it ends the undo.
    local.release_undos()
    expire(local)
    local.age()
    local.apply(local.plan(allowed_fraction=1.0))
    assert set(local.candidates(plan_rules(local, LOGS))) == {address}


def test_a_branch_that_was_expired_while_a_plan_waited_holds(local: World) -> None:
    local.margins = Margins(objects=timedelta(0))
    main = local.repo.branch("main")
    address = main.put("logs/x", b"precious").address
    main.commit("logged")
    repo = local.other()
    work = repo.create_branch("work")
    work.move("logs/x", "kept/x")
    work.commit("only here")
    only = repo.commit("work").id
    repo.delete_branch("work")
    local.clock.advance(days=5)
    plan = plan_rules(local, LOGS)
    # Nothing brings back a branch that a person deleted.
    assert set(local.candidates(plan)) == {address}
    repo.create_branch("work", only)
    run = delete_refs(repo, "work")
    assert run is not None
    local.apply(plan)
    take_back(repo, run.id)
    assert local.other().branch("work").get("kept/x") == b"precious"


def test_an_undo_names_what_rules_have_taken_since(local: World) -> None:
    local.margins = Margins(objects=timedelta(0))
    main = local.repo.branch("main")
    main.put("data/x", b"data")
    main.commit("one")
    main.put("logs/x", b"log")
    for number in range(5):
        main.put(f"data/{number}", b"data")
        main.commit(f"day {number}")
        local.clock.advance(days=1)
    run = expire(local)
    plan = plan_rules(local, LOGS)
    local.apply(plan)
    [sentence] = take_back(local.other(), run)
    assert plan.document.run in sentence
    with pytest.raises(Gone):
        local.other().branch("main").get("logs/x")
