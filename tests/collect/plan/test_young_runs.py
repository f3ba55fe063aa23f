"""Folders of runs: those of young ones are not listed, and those of old ones go."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from reclaim.engine.tasks.parts import Place
from reclaim.ids import age_by_id, new_run_id, new_uid
from reclaim.run.plan.context import YoungRuns
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.record.checkpoints import Mode
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.safety import SAFETY
from reclaim.stores.observation import Margins
from tests.collect.helpers.world import World, bury

Make = Callable[[World, list[str]], WrittenPlan]
MAKES: dict[str, Make] = {
    "a plan": lambda world, steps: world.plan(step=steps.append),
    "a run on uncommitted data": lambda world, steps: world.uncommitted(
        Mode.FULL, step=steps.append
    ),
}


def folder_of(world: World, run_id: str) -> str:
    return Place(*world.store().place(run_id)).prefix


def leave_work(world: World, run_id: str) -> str:
    """A file that a run which died has written for itself."""
    address = f"{folder_of(world, run_id)}work/listing/part.parquet"
    world.storage.put(address, b"left")
    return address


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_the_folder_of_a_young_run_is_not_listed(local: World, make: Make) -> None:
    old = new_run_id(local.clock.now())
    leave_work(local, old)
    local.clock.advance(SAFETY.work + timedelta(minutes=1))
    young = new_run_id(local.clock.now())
    leave_work(local, young)
    listed: list[str] = []
    make(local, listed)
    assert f"list {folder_of(local, old).rstrip('/')}" in listed
    assert not [step for step in listed if young in step]


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
@pytest.mark.parametrize("name", ["a run", "an older version", "a person"])
def test_what_a_run_left_goes_when_it_is_old(world: World, name: str, make: Make) -> None:
    ids = {
        "a run": new_run_id(world.clock.now()),
        "an older version": new_uid(),
        "a person": "mine",
    }
    left = leave_work(world, ids[name])
    world.clock.advance(SAFETY.work - timedelta(minutes=1))
    assert left not in world.candidates(make(world, []))
    world.clock.advance(minutes=2)
    assert left in world.candidates(make(world, []))


def test_records_go_when_they_are_old(local: World) -> None:
    bury(local)
    local.age()
    applied = local.apply(local.plan(allowed_fraction=1.0))
    local.clock.advance(SAFETY.records - timedelta(minutes=1))
    stored = local.storage.list(folder_of(local, applied.run).rstrip("/"))
    records = {one.address for one in stored}
    assert records
    assert records.isdisjoint(local.candidates(local.plan(allowed_fraction=1.0)))
    local.clock.advance(minutes=2)
    assert records <= set(local.candidates(local.plan(allowed_fraction=1.0)))


def test_with_a_shorter_margin_more_is_listed(local: World) -> None:
    left = leave_work(local, new_run_id(local.clock.now()))
    local.margins = Margins(objects=timedelta(0), work=timedelta(minutes=10))
    local.clock.advance(minutes=11)
    assert left in local.candidates(local.plan(allowed_fraction=1.0))


def test_an_undo_lists_no_files_of_runs(local: World) -> None:
    """No commit needs them: what comes back is found in the folders of data and containers."""
    bury(local)
    local.age()
    removal = MoveToQuarantine(timedelta(days=30))
    run = local.apply(local.plan(allowed_fraction=1.0), removal=removal).run
    steps: list[str] = []
    undone = local.undo(run, step=steps.append)
    assert undone.snapshots
    listed = [step for step in steps if step.startswith("list ")]
    assert any("/branches/" in step for step in listed)
    assert any("/_reclaim/meta/" in step for step in listed)
    assert not any("/_reclaim/runs" in step for step in listed)


NOW = datetime.fromisoformat("2026-03-04T05:06:07.089+00:00")


@pytest.mark.parametrize("hours", [0, 1, 1_000_000])
def test_an_id_tells_the_age_of_a_run(hours: int) -> None:
    age = timedelta(hours=hours) if hours < 1_000 else timedelta(days=20_000)
    made = new_run_id(NOW - age)
    assert len(made) == len(new_uid())
    assert int(made, 16) >= 0
    assert age_by_id(made, NOW) == age


def test_the_first_digits_of_an_id_are_random() -> None:
    """People name a run by them, and another of the same minute must not be taken for it."""
    assert len({new_run_id(NOW)[:8] for _ in range(100)}) == 100


@pytest.mark.parametrize("name", ["", "clean", "x" * 32, "019b8be2df60", "0" * 20 + "_19b8be2df60"])
def test_a_name_that_tells_no_time(name: str) -> None:
    assert age_by_id(name, NOW) is None


@pytest.mark.parametrize(
    ("before", "young"),
    [
        (timedelta(hours=-1), False),
        (-SAFETY.clock_skew, True),
        (timedelta(0), True),
        (SAFETY.work - timedelta(milliseconds=1), True),
        (SAFETY.work, False),
    ],
)
def test_which_runs_are_young(local: World, before: timedelta, young: bool) -> None:
    """One that seems to begin an hour from now has an id by chance, and is looked at."""
    folder = folder_of(local, new_run_id(NOW - before))
    runs = YoungRuns(local.store(), Margins(), NOW)
    assert runs.has(folder) == young
    assert runs.has(folder.rstrip("/")) == young
    assert not runs.has(f"{folder}work")
    assert not runs.has(folder.replace("/runs/", "/elsewhere/"))
