"""Runs on uncommitted data and of lifecycle rules beside each other: one index, one checkpoint."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import update

from reclaim.catalog.database.schema import runs
from reclaim.run.plan import plan_file
from reclaim.run.plan.plan_document import Lifecycle, Uncommitted, hash_of
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.record.checkpoints import Checkpoint, CheckpointManifest, Mode
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.run_record import SavedManifest
from reclaim.stores.observation import Margins
from tests.collect.helpers.uncommitted import address, begin, checkpoint_of, settle
from tests.collect.helpers.world import NAME, World
from tests.lifecycle.logs import LOGS, OLD, missing, week
from tests.lifecycle.random_both import Seen, live_with_both
from tests.lifecycle.ruled import Rules, plan_rules
from tests.support.soak import SOAK

pytestmark = pytest.mark.repeats(first=1)

NOTHING: Rules = {"nothing": {"prefix": "nothing/", "days": 1}}


def by_rules(world: World, *, full: bool = False, rules: Rules = LOGS) -> WrittenPlan:
    return plan_rules(world, rules, full=full)


def uncommitted(world: World, *, full: bool = False) -> WrittenPlan:
    mode = Mode.FULL if full else Mode.INCREMENTAL
    return world.uncommitted(mode, allowed_fraction=1.0)


KINDS: dict[str, Callable[..., WrittenPlan]] = {"uncommitted": uncommitted, "lifecycle": by_rules}


def section(plan: WrittenPlan) -> Uncommitted | Lifecycle:
    found = plan.document.incremental
    assert found is not None
    return found


def left_by(world: World) -> CheckpointManifest:
    found = checkpoint_of(world)
    assert isinstance(found, Checkpoint)
    for file in found.addresses():
        world.storage.head(file)
    return found.manifest


def decides_as_a_full_run(world: World, kind: str, mode: Mode = Mode.INCREMENTAL) -> WrittenPlan:
    plan, full = KINDS[kind](world), KINDS[kind](world, full=True)
    assert section(plan).mode == mode, section(plan).why
    there = world.there()
    assert set(world.candidates(plan)) & there == set(world.candidates(full)) & there
    return plan


@pytest.fixture
def logs(local: World) -> World:
    return week(local)


def write(world: World, path: str) -> None:
    """A commit with a new range, and something that is in none."""
    with world.opened() as catalog:
        main = catalog.repository(NAME).branch("main")
        main.put(path, path.encode())
        main.commit(path)
        main.put("data/never", b"never committed")
        main.reset()
    world.clock.advance(hours=2)


@pytest.mark.parametrize("order", [list(KINDS), list(KINDS)[::-1]], ids=lambda order: order[0])
def test_a_range_is_read_by_one_kind_of_run_alone(logs: World, order: list[str]) -> None:
    first, second = order
    plan = KINDS[first](logs)
    read = section(plan).ranges_read
    assert read > 0
    logs.apply(plan)
    plan = decides_as_a_full_run(logs, second, Mode.FULL)
    assert "and only its index counts" in section(plan).why
    assert section(plan).ranges_read == 0
    logs.apply(plan)
    assert sum(part.rows for part in left_by(logs).ranges_since(None)) == read
    write(logs, "logs/new")
    plan = decides_as_a_full_run(logs, first)
    assert section(plan).ranges_read > 0
    logs.apply(plan)
    plan = decides_as_a_full_run(logs, second)
    assert section(plan).ranges_read == 0
    logs.apply(plan)
    assert missing(logs) == OLD
    manifest = left_by(logs)
    assert manifest.generation == 3
    assert manifest.uncommitted is not None
    assert manifest.lifecycle is not None


def test_what_was_committed_and_read_by_rules_is_live(local: World) -> None:
    """Carried by the checkpoint in a partition that is final; the range that lists it since was
    read by the other kind of run."""
    main = begin(local)
    main.put("x", b"staged")
    staged = address(main, "x")
    settle(local)
    local.apply(uncommitted(local))
    with local.opened() as catalog:
        catalog.repository(NAME).branch("main").commit("with what was staged")
    local.apply(by_rules(local, rules=NOTHING))
    settle(local)
    plan = decides_as_a_full_run(local, "uncommitted")
    assert section(plan).ranges_read == 0
    local.apply(plan)
    assert staged in local.there()
    local.check()


def test_what_was_committed_and_read_as_live_is_judged(logs: World) -> None:
    """The dates of a new range had passed by the time of the next run of rules."""
    logs.apply(by_rules(logs))
    write(logs, "logs/new")
    logs.apply(uncommitted(logs))
    logs.clock.advance(days=4)
    plan = decides_as_a_full_run(logs, "lifecycle")
    assert section(plan).ranges_read == 0
    logs.apply(plan)
    assert "logs/new" in missing(logs)


def test_a_range_that_was_dead_at_the_last_run_is_read_again(logs: World) -> None:
    """Its entries are old in the index, and became old enough while it was dead."""
    with logs.opened() as catalog:
        work = catalog.repository(NAME).create_branch("work", "main")
        work.put("logs/work", b"work")
        commit = work.commit("on work").id
        found = address(work, "logs/work")
    logs.apply(by_rules(logs))
    logs.other().delete_branch("work")
    logs.clock.advance(days=5)
    logs.apply(by_rules(logs))
    assert found in logs.there()
    logs.other().create_branch("again", commit)
    logs.clock.advance(days=1)
    plan = decides_as_a_full_run(logs, "lifecycle")
    assert found in logs.candidates(plan)


def test_a_full_run_begins_a_new_index(logs: World) -> None:
    """What another kind of run had seen of the old one says nothing about it."""
    for kind in ("uncommitted", "lifecycle", "uncommitted"):
        logs.apply(KINDS[kind](logs))
    write(logs, "logs/new")
    logs.apply(uncommitted(logs, full=True))
    manifest = left_by(logs)
    assert (manifest.generation, manifest.lifecycle) == (0, None)
    logs.clock.advance(days=4)
    plan = decides_as_a_full_run(logs, "lifecycle", Mode.FULL)
    assert section(plan).ranges_read == 0
    logs.apply(plan)
    assert "logs/new" in missing(logs)
    assert left_by(logs).uncommitted is not None


def test_commits_that_were_collected_leave_the_index(logs: World) -> None:
    """A section that does not count any more takes neither the index nor the other one along."""
    with logs.opened() as catalog:
        work = catalog.repository(NAME).create_branch("work", "main")
        work.put("logs/work", b"work")
        work.commit("on work")
    for kind in KINDS:
        logs.apply(KINDS[kind](logs))
    logs.other().delete_branch("work")
    settle(logs)
    logs.apply(logs.plan(allowed_fraction=1.0))
    plan = decides_as_a_full_run(logs, "uncommitted", Mode.FULL)
    assert "deleted by another run" in section(plan).why
    assert section(plan).ranges_read == 0
    logs.apply(plan)
    decides_as_a_full_run(logs, "lifecycle")


@pytest.mark.parametrize("order", [list(KINDS), list(KINDS)[::-1]], ids=lambda order: order[0])
def test_of_two_plans_from_one_checkpoint_the_first_leaves_one(
    logs: World, order: list[str]
) -> None:
    for kind in KINDS:
        logs.apply(KINDS[kind](logs))
    base = left_by(logs)
    with logs.opened() as catalog:
        main = catalog.repository(NAME).branch("main")
        main.put("data/staged", b"staged")
        staged = address(main, "data/staged")
    logs.clock.advance(days=3)
    plans = {kind: KINDS[kind](logs) for kind in order}
    with logs.opened() as catalog:
        catalog.repository(NAME).branch("main").commit("after both plans")
    for kind in order:
        logs.apply(plans[kind])
    manifest = left_by(logs)
    assert manifest.run == plans[order[0]].document.run
    assert manifest.generation == base.generation + 1
    gone = missing(logs)
    assert gone == {f"logs/{day}" for day in range(7)}
    for kind in order:
        logs.apply(decides_as_a_full_run(logs, kind))
    assert staged in logs.there()
    assert missing(logs) == gone
    for kind in order:
        decides_as_a_full_run(logs, kind)


@pytest.mark.parametrize("undone", KINDS)
@pytest.mark.parametrize("after", [False, True], ids=["at once", "after another run"])
def test_an_undo_of_either_kind_ends_the_checkpoint(logs: World, undone: str, after: bool) -> None:
    for kind in KINDS:
        logs.apply(KINDS[kind](logs))
    write(logs, "logs/new")
    logs.clock.advance(days=4)
    run = logs.apply(KINDS[undone](logs), removal=MoveToQuarantine(timedelta(days=30))).run
    if after:
        (other,) = KINDS.keys() - {undone}
        logs.apply(KINDS[other](logs))
    logs.undo(run)
    for kind in KINDS:
        plan = decides_as_a_full_run(logs, kind, Mode.FULL)
        assert "a run was undone since" in section(plan).why
        assert section(plan).ranges_read > 0
    logs.apply(uncommitted(logs))
    logs.apply(decides_as_a_full_run(logs, "lifecycle", Mode.FULL))
    assert {"logs/new", *OLD} <= missing(logs)
    for kind in KINDS:
        decides_as_a_full_run(logs, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noted", ["checkpoint", "lifecycle"])
def test_a_checkpoint_of_an_older_version_is_ignored(logs: World, kind: str, noted: str) -> None:
    """Both kinds had one of their own, in folders of their own, which are collected."""
    run = logs.apply(KINDS[kind](logs)).run
    prefix = f"repos/{logs.repo.uid}/_reclaim"
    data = json.dumps({"format": 1, "carried": []}).encode()
    old = [
        f"{prefix}/{folder}/{run}/checkpoint.json"
        for folder in ("uncommitted", "index", "lifecycle/checkpoints", "lifecycle/index")
    ]
    for place in old:
        logs.storage.put(place, data)
    [record] = [one for one in logs.store().runs() if one.id == run]
    saved = SavedManifest(old[0], hashlib.sha256(data).hexdigest())
    document = json.loads(replace(record, checkpoint=saved).encode())
    if noted == "lifecycle":
        rules = document.get("lifecycle", {})
        document["lifecycle"] = {**rules, "checkpoint": document.pop("checkpoint")}
    with logs.repo._workspace.database.write() as connection:
        changed = update(runs).where(runs.c.id == run).values(record=json.dumps(document))
        connection.execute(changed)
    for name in KINDS:
        plan = decides_as_a_full_run(logs, name, Mode.FULL)
        why = f"the checkpoint of run {run} has format 1, and this Reclaim uses format 2"
        assert section(plan).why == why
    logs.apply(KINDS[kind](logs))
    assert section(KINDS[kind](logs)).mode == Mode.INCREMENTAL
    logs.margins = Margins()
    logs.clock.advance(days=2)
    logs.apply(logs.plan(allowed_fraction=1.0))
    assert not {stored.address for stored in logs.storage.list()} & set(old)


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_of_an_older_version_can_be_read(logs: World, kind: str) -> None:
    """A run of it that was cut off can be finished; it leaves no checkpoint."""
    plan = KINDS[kind](logs)
    body = plan.document.model_dump(mode="json")
    del body[kind]["indexed"]
    words = {"uncommitted": "clean", "lifecycle": "full"}
    body[kind] |= {"known_index": [], "mode": words[kind]}
    body["digest"] = hash_of(body)
    logs.storage.put(plan.place.at(plan_file.FILE), json.dumps(body).encode())
    read = plan_file.read(logs.storage, plan.place)
    assert read.incremental is not None
    assert (read.incremental.mode, read.incremental.indexed) == (Mode.FULL, None)


def test_what_rules_took_counts_no_more_for_the_rule_of_90_percent(logs: World) -> None:
    """Live commits still list it, in partitions that are not listed again."""
    logs.clock.advance(days=3)
    logs.apply(uncommitted(logs))
    known = section(uncommitted(logs)).objects_known
    logs.apply(by_rules(logs))
    taken = len(missing(logs))
    assert taken >= 5
    for _ in range(2):
        logs.clock.advance(hours=1)
        plan = uncommitted(logs)
        assert section(plan).mode == Mode.INCREMENTAL
        assert section(plan).objects_known <= known - taken
        logs.apply(plan)


@pytest.mark.parametrize("seed", range(200 if SOAK else 3))
def test_each_incremental_run_decides_as_a_full_one(local: World, seed: int) -> None:
    seen = Seen()
    live_with_both(local, random.Random(1000 + seed), seen, rounds=6 if SOAK else 4)
    assert seen.incremental >= 2
    assert seen.went + seen.taken >= 1
    assert seen.unread >= 1
