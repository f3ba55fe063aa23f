"""A collection and then a run of lifecycle rules, as a scheduler runs them."""

from __future__ import annotations

import pytest

from reclaim.errors import InvalidInput, NotFound, TooMuch
from reclaim.run.apply.limits import Limits
from reclaim.run.gc import Collected
from tests.collect.helpers.world import NAME, World
from tests.lifecycle.logs import LOGS, OLD, missing, week
from tests.lifecycle.ruled import plan_rules, section, set_rules
from tests.lifecycle.test_afterwards import collect_and_run, cut_off, run


@pytest.fixture
def logs(local: World) -> World:
    week(local)
    set_rules(local, LOGS)
    return local


def candidates(done: Collected) -> int:
    assert done.plan is not None
    return done.plan.document.candidates


def test_the_next_run_of_rules_starts_from_the_one_after_a_collection(logs: World) -> None:
    waste(logs)
    collect_and_run(logs)
    assert missing(logs) == OLD
    logs.clock.advance(days=1)
    collect_and_run(logs)
    plan = plan_rules(logs, LOGS)
    assert section(plan).mode == "incremental"
    assert logs.candidates(plan) == logs.candidates(plan_rules(logs, LOGS, full=True))


def test_only_commits_that_stay_count(logs: World) -> None:
    """A branch holds what a rule matches, until its commit expires."""
    with logs.opened() as catalog:
        repo = catalog.repository(NAME)
        old = repo.create_branch("old", "main")
        old.copy("logs/1", "kept")
        old.commit("copy")
        old.delete("kept")
        old.commit("without")
    assert candidates(collect_and_run(logs)) == len(OLD) - 1
    assert candidates(collect_and_run(logs, keep_last=1)) == 1
    assert "logs/1" in missing(logs)


def waste(world: World) -> None:
    """An object that nothing refers to."""
    with world.opened() as catalog:
        main = catalog.repository(NAME).branch("main")
        main.put("data/never", b"never committed")
        main.reset()
    world.clock.advance(hours=2)


def test_a_refusal_of_the_rules_leaves_what_was_collected(logs: World) -> None:
    waste(logs)
    with pytest.raises(TooMuch) as told:
        collect_and_run(logs, limits=Limits(4))
    [collected] = [one for one in logs.store().runs() if one.kind == "collect"]
    assert (collected.counts.objects, collected.counts.bytes) == (1, 15)
    assert "nothing was changed; review the plan: reclaim show" in (told.value.hint or "")
    assert missing(logs) == set()
    done = collect_and_run(logs, limits=Limits(5))
    assert done.applied is not None
    assert done.applied.outcome.counts.total() == 5


def test_a_refusal_tells_of_a_run_that_was_finished_before(local: World) -> None:
    first = cut_off(local)
    with local.opened() as catalog:
        main = catalog.repository(NAME).branch("main")
        for number in range(6):
            main.put(f"logs/late {number}", b"late")
        main.commit("late")
    local.clock.advance(days=4)
    with pytest.raises(TooMuch) as told:
        run(local, limits=Limits(5))
    hint = told.value.hint or ""
    assert hint.startswith(f"run {first} has deleted 5 objects (25 bytes); since then nothing was")
    assert told.value.details["before"] == [first]
    assert missing(local) == OLD


def test_what_it_refuses(logs: World) -> None:
    logs.store().store_lifecycle(None)
    with pytest.raises(NotFound):
        run(logs)
    set_rules(logs, {"off": {"prefix": "", "days": 1, "enabled": False}})
    before = len(logs.store().runs())
    with pytest.raises(InvalidInput, match="no enabled"):
        run(logs)
    assert len(logs.store().runs()) == before
