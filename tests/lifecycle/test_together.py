"""A collection and a run of lifecycle rules in one go."""

from __future__ import annotations

from collections import Counter

import pytest

from reclaim.errors import InvalidInput, NotFound, TooMuch
from reclaim.policy import from_options
from reclaim.run.apply.limits import NO_LIMITS, Limits
from reclaim.run.lifecycle.collecting import CollectedByRules, collect_by_rules
from reclaim.run.plan.planning import PlanOptions
from reclaim.storage import Storage
from reclaim.testing import StorageWrapper
from tests.collect.world import NAME, World, opening
from tests.lifecycle.logs import LOGS, OLD, missing, week
from tests.lifecycle.ruled import plan_rules, section, set_rules
from tests.lifecycle.test_afterwards import cut_off


class CountsRanges(StorageWrapper):
    """Counts how often each object is read."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self.reads: Counter[str] = Counter()

    def get(self, address: str) -> bytes:
        self.reads[address] += 1
        return super().get(address)


@pytest.fixture
def logs(local: World) -> World:
    week(local)
    set_rules(local, LOGS)
    return local


def run(
    world: World,
    storage: Storage | None = None,
    limits: Limits = NO_LIMITS,
    **rules: object,
) -> CollectedByRules:
    found = storage or world.storage
    options = PlanOptions(
        policy=from_options(**rules),
        margins=world.margins,
        allowed_fraction=1.0,
    )
    engine = world.engine(storage=found)
    return collect_by_rules(world.store(), engine, options, limits=limits, opener=opening(found))


def test_each_range_is_read_once(logs: World) -> None:
    with logs.opened() as catalog:
        main = catalog.repository(NAME).branch("main")
        main.put("data/never", b"never committed")
        main.reset()
    logs.clock.advance(hours=2)
    counted = CountsRanges(logs.storage)
    done = run(logs, counted)
    ranges = [row for row in counted.reads if "/_reclaim/meta/" in row]
    metaranges = {logs.other().commit(c.id).metarange for c in logs.other().log("main")}
    assert {counted.reads[one] for one in set(ranges) - metaranges} == {1}
    assert section(done.plan).ranges_read == 0
    assert done.collected.applied is not None
    assert missing(logs) == OLD
    # The next run starts from it.
    logs.clock.advance(days=1)
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
    assert run(logs).plan.document.candidates == len(OLD) - 1
    done = run(logs, keep_last=1)
    assert done.plan.document.candidates == 1
    assert "logs/1" in missing(logs)


def waste(world: World) -> None:
    """An object that nothing refers to."""
    with world.opened() as catalog:
        main = catalog.repository(NAME).branch("main")
        main.put("data/never", b"never committed")
        main.reset()
    world.clock.advance(hours=2)


def test_a_refusal_of_the_rules_tells_what_was_collected(logs: World) -> None:
    waste(logs)
    with pytest.raises(TooMuch) as told:
        run(logs, limits=Limits(4))
    [collected] = [one.id for one in logs.store().runs() if one.kind == "collect"]
    hint = told.value.hint or ""
    assert hint.startswith(f"run {collected} has deleted 1 objects (15 bytes)")
    assert "; since then nothing was changed; review the plan: reclaim show" in hint
    assert told.value.details["before"] == [collected]
    assert missing(logs) == set()
    assert run(logs, limits=Limits(5)).applied.outcome.counts.total() == 5


def test_a_refusal_tells_of_a_run_that_was_finished_before(local: World) -> None:
    first = cut_off(local)
    waste(local)
    with pytest.raises(TooMuch) as told:
        run(local, limits=Limits(5), keep_last=1)
    hint = told.value.hint or ""
    assert hint.startswith(f"run {first} has deleted 5 objects (25 bytes); since then nothing was")
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
