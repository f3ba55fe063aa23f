"""Later runs: what an incremental one has to look at, and what stops it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from reclaim.engine.tasks import index
from reclaim.errors import IncompleteRead, Partial
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.sweep.removal import MoveToQuarantine
from tests.collect.helpers.world import NAME, At, World, stepped
from tests.lifecycle.logs import LOGS, OLD, missing, week
from tests.lifecycle.ruled import Rules, held, plan_rules, section
from tests.lifecycle.test_afterwards import MOVE, cut_off


@pytest.fixture
def logs(local: World) -> World:
    return week(local)


def going(world: World, rules: Rules) -> set[str]:
    """The paths on main that an incremental run takes."""
    plan = plan_rules(world, rules)
    assert section(plan).mode == "incremental", section(plan).why
    found = set(world.candidates(plan))
    return {entry.path for entry in world.other().at("main").entries() if entry.address in found}


def test_an_old_copy_holds_what_a_new_range_has(logs: World) -> None:
    """An entry of the index under a path without a rule, and a new path with one."""
    rules: Rules = {"tmp": {"prefix": "tmp/", "days": 3}}
    logs.apply(plan_rules(logs, rules))
    with logs.opened() as catalog:
        main = catalog.repository(NAME).branch("main")
        main.copy("data/1", "tmp/1")
        main.commit("copy")
    logs.clock.advance(days=4)
    assert going(logs, rules) == set()
    assert list(held(logs, plan_rules(logs, rules)).values()) == [["data/1 on the branch main"]]


def test_what_a_new_branch_matches_is_carried(logs: World) -> None:
    """Held by main, and matched on a branch that came later; then main has it no more."""
    rules: Rules = {"scratch": {"prefix": "data/", "branch_days": {"scratch": 1}}}
    logs.apply(plan_rules(logs, rules))
    repo = logs.other()
    repo.create_branch("scratch", repo.log("main")[-2].id)
    plan = plan_rules(logs, rules)
    assert section(plan).mode == "incremental"
    assert list(held(logs, plan).values()) == [["data/0 on the branch main"]]


def test_a_branch_that_is_gone_holds_nothing(logs: World) -> None:
    """Neither by the commits that it shared with others, nor by its own, which are dead."""
    rules: Rules = {"logs": {"prefix": "logs/", "days": 3}}
    with logs.opened() as catalog:
        free = catalog.repository(NAME).create_branch("free", "main")
        free.copy("logs/1", "kept")
        free.commit("copy")
    logs.apply(plan_rules(logs, rules))
    assert going(logs, rules) == set()
    logs.other().delete_branch("free")
    assert going(logs, rules) == {"logs/1"}


def test_an_undo_of_another_run_ends_a_checkpoint(logs: World) -> None:
    """What a collection took and an undo brings back was in no index."""
    with logs.opened() as catalog:
        repo = catalog.repository(NAME)
        repo.create_branch("dead", "main").put("logs/dead", b"dead")
        repo.branch("dead").commit("dead")
        repo.delete_branch("dead")
    logs.clock.advance(days=1)
    run = logs.apply(logs.plan(allowed_fraction=1.0), removal=MoveToQuarantine()).run
    logs.apply(plan_rules(logs, LOGS))
    logs.undo(run)
    plan = plan_rules(logs, LOGS)
    assert section(plan).mode == "full"
    assert "undone" in section(plan).why


def test_a_range_that_was_not_read_stops_the_run(
    logs: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: Callable[..., Iterator[Any]] = index.read_ranges

    def one_less(*args: Any) -> Iterator[Any]:
        counts = args[-1]
        for number, found in enumerate(read(*args)):
            if number:
                yield found
            else:
                counts.containers -= 1

    monkeypatch.setattr(index, "read_ranges", one_less)
    with pytest.raises(IncompleteRead, match="expected for the index"):
        plan_rules(logs, LOGS)


# Objects that come back beside a run


def all_that_rules_match_goes(world: World) -> None:
    """An incremental run, where the checkpoint counts, takes all that a full one takes."""
    world.apply(plan_rules(world, LOGS))
    assert missing(world) >= OLD
    assert not world.candidates(plan_rules(world, LOGS, full=True))


def test_a_checkpoint_made_during_an_undo_does_not_count(logs: World) -> None:
    first = logs.apply(plan_rules(logs, LOGS), removal=MOVE).run
    prefix = f"repos/{logs.repo.uid}/"
    lost, *_ = sorted(logs.aside())
    logs.storage.delete(f"{prefix}_reclaim/quarantine/{first}/{lost.removeprefix(prefix)}")
    plans: list[WrittenPlan] = []
    begun = At("after finish", lambda: plans.append(plan_rules(logs, LOGS)))
    with pytest.raises(Partial):
        logs.undo(first, store=stepped(logs.store(), begun))
    logs.apply(plans[0])
    assert section(plan_rules(logs, LOGS)).mode == "full"
    logs.purge(run_id=first)
    all_that_rules_match_goes(logs)
    assert section(plan_rules(logs, LOGS)).mode == "incremental"


def test_what_a_run_that_was_cut_off_had_claimed_is_carried(local: World) -> None:
    """A purge of that run releases the objects, and a later checkpoint still has them."""
    first = cut_off(local, MOVE)
    local.clock.advance(days=1)
    local.apply(plan_rules(local, LOGS))
    assert missing(local) == {"logs/5"}
    local.purge(run_id=first)
    assert section(plan_rules(local, LOGS)).mode == "incremental"
    all_that_rules_match_goes(local)
