"""What an undo brought back stays, whatever rules say, until its window ends or it is released."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from reclaim.model import SnapshotId
from reclaim.policy import from_options
from reclaim.run.expire.released import find_hold
from reclaim.run.gc import collect
from reclaim.run.plan.planning import PlanOptions
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine, Removal
from reclaim.run_record import RunRecord
from reclaim.safety import SAFETY
from tests.collect.helpers.world import World, opening, whole
from tests.support.expiring import apply_expire, decide, expire, plan_expire, take_back

pytestmark = pytest.mark.repeats(first=2)

RULES = from_options(keep_last=2)
WEEK = MoveToQuarantine(keep=timedelta(days=7))
Take = Callable[[World], str]


def make_log(world: World) -> list[str]:
    """Five commits on main and the first one, the newest first; all of them old."""
    main = world.repo.branch("main")
    for number in range(5):
        main.put("a", f"{number}".encode())
        main.commit(str(number))
        world.clock.advance(hours=1)
    world.age()
    return read_log(world)


def read_log(world: World) -> list[str]:
    return [commit.id for commit in world.other().log("main")]


def gc(world: World, removal: Removal = DELETE) -> str | None:
    """The nightly run."""
    options = PlanOptions(policy=RULES, margins=world.margins, allowed_fraction=1.0)
    done = collect(
        world.store(), world.engine(), options, removal=removal, opener=opening(world.storage)
    )
    return None if done.applied is None else done.applied.run


def by_gc(world: World) -> str:
    run = gc(world, WEEK)
    assert run is not None
    return run


def by_expire(world: World) -> str:
    run = expire(world.repo, RULES)
    assert isinstance(run, RunRecord)
    return run.id


def by_gc_that_deletes(world: World) -> str:
    """A reader holds all that the run takes out of the history, so nothing is deleted."""
    lease = world.repo.take_lease(read_log(world)[2], holder="reader", length=timedelta(days=1))
    run = gc(world)
    world.repo.release_lease(lease.id)
    assert run is not None
    return run


def undo(world: World, run: str) -> None:
    [kind] = [listed.kind for listed in world.repo.runs() if listed.id == run]
    if kind == "expire":
        take_back(world.repo, run)
    else:
        world.undo(run)


TAKES = pytest.mark.parametrize("take", [by_gc, by_gc_that_deletes, by_expire])


@TAKES
def test_the_next_nights_leave_what_came_back(world: World, take: Take) -> None:
    log = make_log(world)
    run = take(world)
    taken_at = world.clock.now()
    assert read_log(world) == [*log[:2], log[-1]]
    world.clock.advance(hours=8)
    undo(world, run)
    end = find_hold(world.store(), run)
    assert end is not None
    assert abs(end - taken_at - SAFETY.quarantine) < timedelta(minutes=1)
    for _ in range(6):
        world.clock.advance(days=1)
        gc(world)
        assert read_log(world) == log
    for number, commit in enumerate(reversed(log[:-1])):
        assert whole(world.other(), commit) == {"a": f"{number}".encode()}
    world.clock.advance(days=1)
    gc(world)
    assert read_log(world) == [*log[:2], log[-1]]


@TAKES
def test_it_goes_sooner_once_it_is_released(local: World, take: Take) -> None:
    log = make_log(local)
    undo(local, take(local))
    local.release_undos()
    gc(local)
    assert read_log(local) == [*log[:2], log[-1]]


@TAKES
def test_an_expiration_leaves_it_too(local: World, take: Take) -> None:
    log = make_log(local)
    undo(local, take(local))
    planned = plan_expire(local.repo, RULES)
    assert not planned.document.edits_history
    assert apply_expire(local.repo, planned) is None
    assert read_log(local) == log


def test_a_plan_from_before_the_undo_leaves_it(local: World) -> None:
    """The plan knew these commits as expired, and nothing reached them."""
    log = make_log(local)
    run = by_expire(local)
    plan = local.plan(RULES, allowed_fraction=1.0)
    take_back(local.repo, run)
    local.apply(plan)
    assert read_log(local) == log


def test_a_plan_names_the_undo_and_its_end(local: World) -> None:
    log = make_log(local)
    run = by_gc(local)
    local.undo(run)
    end = find_hold(local.store(), run)
    assert end is not None
    plan = local.plan(RULES).document
    [holder] = plan.held_by
    assert (plan.expired, holder.commits) == (3, 3)
    assert (holder.kind, holder.run, holder.ref, holder.until) == ("undo", run, None, end)
    [note] = [note for note in plan.warnings if run in note]
    assert f"are held until {end:%F %T} UTC" in note
    assert f"reclaim lease release {local.repo.name} --holder 'undo of run {run}'" in note
    reasons = {row.id: row.reasons for row in decide(local.repo, RULES).decided.reached()}
    assert reasons[SnapshotId(log[2])][0] == "held by the undo of a run"


def test_a_commit_that_hangs_on_what_came_back_is_not_held(local: World) -> None:
    """The hold is on what came back and below it; what is above follows the rules."""
    log = make_log(local)
    undo(local, by_expire(local))
    main = local.repo.branch("main")
    for number in range(5, 8):
        main.put("a", f"{number}".encode())
        log.insert(0, main.commit(str(number)).id)
    local.clock.advance(hours=1)
    gc(local)
    assert read_log(local) == [*log[:2], *log[5:]]
