"""What keeps lifecycle rules from taking too much: protected paths, exclusions, the part of all
objects that may go, and what is remembered of what is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from reclaim.engine.tasks.parts import Place
from reclaim.errors import Gone, Partial, PlanRefused, TooMuch
from reclaim.run.sweep.removal import MoveToQuarantine, Removal
from reclaim.run_record import Phase
from tests.collect.helpers.world import World
from tests.lifecycle.logs import LOGS, OLD, missing, planned, week
from tests.lifecycle.ruled import Rules, held, plan_rules, section
from tests.lifecycle.test_afterwards import cut_off
from tests.lifecycle.test_afterwards import run as next_run

EVERYTHING: Rules = {"mistake": {"prefix": "", "days": 1}}


def copied(world: World) -> World:
    """The week, with a second path for the bytes of its first log."""
    main = week(world).repo.branch("main")
    main.copy("logs/0", "logs/kept/0")
    main.commit("a copy")
    world.clock.advance(days=7)
    return world


def test_a_protected_path_holds_whatever_its_other_paths_are(local: World) -> None:
    world = copied(local)
    world.repo.change_settings(protect=("logs/kept/*",))
    plan = plan_rules(world, LOGS)
    kept = world.repo.branch("main").stat("logs/kept/0").address
    assert kept in held(world, plan)
    world.apply(plan)
    assert missing(world) == {f"logs/{day}" for day in range(1, 7)}
    assert world.repo.branch("main").get("logs/kept/0") == b"log 0"


def test_a_protected_path_that_came_since_the_plan_holds(local: World) -> None:
    world = week(local)
    world.repo.change_settings(protect=("logs/kept/*",))
    plan = plan_rules(world, LOGS)
    main = world.repo.branch("main")
    main.move("logs/0", "logs/kept/0")
    main.commit("moved")
    world.apply(plan)
    assert missing(world) == OLD - {"logs/0"}


def test_what_is_excluded_by_any_of_its_paths_stays(local: World) -> None:
    world = copied(local)
    done = world.apply(plan_rules(world, LOGS), exclude=["logs/kept/*"])
    assert done.left_out.objects == 1
    assert missing(world) == {f"logs/{day}" for day in range(1, 7)}


def test_a_later_run_that_would_take_nearly_all_lists_all(local: World) -> None:
    world = week(local)
    main = world.repo.branch("main")
    for number in range(3):
        main.put("data/0", f"version {number}".encode())
        main.commit("again")
        world.apply(plan_rules(world, LOGS))
        world.clock.advance(days=1)
    world.clock.advance(days=2)
    assert section(plan_rules(world, LOGS)).mode == "incremental"
    with pytest.raises(TooMuch):
        plan_rules(world, EVERYTHING, allowed_fraction=0.4)
    plan = plan_rules(world, EVERYTHING)
    assert section(plan).mode == "full"
    assert "would be deleted" in section(plan).why


def test_what_an_undo_brought_back_since_the_plan_is_not_forgotten(local: World) -> None:
    world = week(local)
    side = world.repo.branch("side")
    side.put("logs/only", b"only")
    commit = side.commit("beside").id
    world.clock.advance(days=9)
    world.apply(plan_rules(world, LOGS))
    world.other().delete_branch("side")
    world.age()
    run = world.apply(world.plan(allowed_fraction=1.0), removal=MoveToQuarantine()).run
    plan = plan_rules(world, LOGS, full=True)
    world.undo(run)
    world.other().create_branch("back", commit)
    world.apply(plan)
    with pytest.raises(Gone, match="logs"):
        world.other().branch("back").get("logs/only")


@pytest.mark.parametrize("kind", ["rules", "collection"])
def test_a_plan_by_a_clock_that_runs_ahead_is_refused(
    local: World, tmp_path: Path, kind: str
) -> None:
    """One that lies elsewhere: its clock was compared with that of another place."""
    world = week(local)
    place = Place((tmp_path / "elsewhere").as_uri(), "")
    Path(tmp_path / "elsewhere").mkdir()
    world.clock.advance(days=300)
    if kind == "rules":
        plan = plan_rules(world, LOGS, place=place)
    else:
        plan = world.plan(allowed_fraction=1.0, place=place)
    world.clock.advance(days=-300)
    with pytest.raises(PlanRefused, match="in the future"):
        world.apply(plan)
    assert missing(world) == set()


@pytest.mark.parametrize("data", [b"\xff\xfe", b'a"' * 100_000], ids=["letters", "length"])
def test_a_damaged_file_of_statistics_stops_nothing(local: World, data: bytes) -> None:
    plan = planned(local)
    day = section(plan).today.isoformat()
    local.storage.put(f"repos/{local.repo.uid}/_reclaim/lifecycle/stats/{day}.csv", data)
    run = local.apply(plan).run
    assert {one.id: one.phase for one in local.repo.runs()}[run] == Phase.DONE


@pytest.mark.parametrize("removal", [None, MoveToQuarantine()], ids=["deleted", "moved"])
def test_what_was_protected_since_a_run_was_cut_off_stays(
    local: World, removal: Removal | None
) -> None:
    run = cut_off(local, removal)
    local.repo = local.other()
    local.repo.change_settings(protect=("logs/*",))
    with pytest.raises(Partial, match=rf"protects logs/\* since .*reclaim undo {run}"):
        next_run(local)
    assert missing(local) == set()
    local.undo(run)
    assert missing(local) == set()
