"""An incremental run that cannot be sure is begun again as a full run, instead of being refused."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from reclaim.run.record.checkpoints import IndexStep, Mode
from reclaim.stores.observation import Margins
from tests.collect.helpers.uncommitted import begin, checkpoint_of, notes, run, settle
from tests.collect.helpers.world import NAME, World
from tests.lifecycle.logs import week
from tests.lifecycle.ruled import plan_rules, section

LOGS = {"logs": {"prefix": "logs/", "days": 3}}


def damage(world: World, address: str, how: str) -> None:
    if how == "gone":
        world.storage.delete(address)
    else:
        world.storage.put(address, world.storage.get(address)[:100])


def index_of(world: World) -> Sequence[IndexStep]:
    checkpoint = checkpoint_of(world)
    assert not isinstance(checkpoint, str)
    return checkpoint.manifest.index


def write(world: World, branch: str, folder: str, count: int) -> None:
    """Commit objects on a branch, which is made from main if it is not there."""
    with world.opened() as catalog:
        repo = catalog.repository(NAME)
        if branch not in {ref.name for ref in repo.branches()}:
            repo.create_branch(branch, "main")
        for number in range(count):
            repo.branch(branch).put(f"{folder}/{number}", f"{folder} {number}".encode())
        repo.branch(branch).commit(folder)


@pytest.mark.parametrize("how", ["gone", "truncated"])
@pytest.mark.parametrize("files", ["parts", "ranges"])
def test_a_full_run_goes_without_a_damaged_index(local: World, how: str, files: str) -> None:
    begin(local)
    work = local.repo.create_branch("work", "main")
    work.put("x", b"x")
    work.commit("on work")
    settle(local)
    run(local)
    local.repo.delete_branch("work")
    # Commits that a collection removed need a full run.
    local.apply(local.plan(allowed_fraction=1.0))
    for step in index_of(local):
        for file in getattr(step, files):
            damage(local, file.address, how)
    plan = local.uncommitted(allowed_fraction=1.0)
    assert (notes(plan).mode, "damaged" in notes(plan).why) == ("full", True)
    local.apply(plan)
    assert notes(local.uncommitted(allowed_fraction=1.0)).mode == "incremental"


@pytest.mark.parametrize("how", ["gone", "truncated"])
def test_rules_by_which_much_goes_need_no_index(local: World, how: str) -> None:
    world = week(local)
    world.apply(plan_rules(world, {"nothing": {"prefix": "logs/0", "days": 100}}))
    world.clock.advance(days=1)
    for step in index_of(world):
        for file in step.ranges:
            damage(world, file.address, how)
    plan = plan_rules(world, {"all": {"prefix": "", "days": 1}})
    assert (section(plan).mode, "damaged" in section(plan).why) == ("full", True)


def test_objects_that_rules_took_refuse_no_later_run(local: World) -> None:
    """They are subtracted from the objects known of the store, once more when a branch goes."""
    local.margins = Margins(objects=timedelta(0))
    write(local, "main", "keep", 40)
    write(local, "side", "logs", 60)
    local.clock.advance(days=5)
    settle(local)
    local.apply(local.uncommitted(allowed_fraction=1.0))
    local.clock.advance(hours=1)
    local.apply(plan_rules(local, LOGS))
    local.clock.advance(hours=1)
    local.apply(local.uncommitted(allowed_fraction=1.0))
    local.clock.advance(hours=1)
    local.other().delete_branch("side")
    local.clock.advance(days=2)
    local.apply(local.uncommitted(allowed_fraction=1.0))
    with local.opened() as catalog:
        main = catalog.repository(NAME).branch("main")
        for number in range(70):
            main.put(f"junk/{number}", b"junk %d" % number)
        main.reset()
    local.clock.advance(days=2)
    settle(local)
    full = local.uncommitted(Mode.FULL, allowed_fraction=0.9)
    plan = local.uncommitted(allowed_fraction=0.9)
    assert (notes(plan).mode, "objects would be deleted" in notes(plan).why) == ("full", True)
    assert plan.document.candidates == full.document.candidates >= 70


def test_rules_may_take_the_allowed_fraction_of_a_store_that_grew(local: World) -> None:
    local.margins = Margins(objects=timedelta(0))
    write(local, "main", "keep", 100)
    settle(local)
    local.apply(plan_rules(local, LOGS))
    write(local, "main", "data", 355)
    write(local, "main", "logs", 45)
    settle(local)
    local.clock.advance(days=5)
    plan = plan_rules(local, LOGS, allowed_fraction=0.4)
    assert (section(plan).mode, plan.document.candidates) == ("full", 45)
