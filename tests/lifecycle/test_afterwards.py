"""What lifecycle runs leave: runs that were cut off, and what need not be remembered for ever."""

from __future__ import annotations

from typing import Any

import pytest

from reclaim.catalog.database.schema import claimed_addresses, claims
from reclaim.errors import Gone
from reclaim.policy import from_options
from reclaim.run.apply.limits import NO_LIMITS, Limits
from reclaim.run.gc import Collected, collect
from reclaim.run.lifecycle.rules import find_runs
from reclaim.run.lifecycle.unfinished import find_unfinished
from reclaim.run.plan.planning import PlanOptions
from reclaim.run.requests import RunKind, RunRequest
from reclaim.run.sweep.removal import MoveToQuarantine, Removal
from reclaim.run_record import Phase
from reclaim.storage import Storage
from tests.catalog import raw
from tests.collect.helpers.dying import dies
from tests.collect.helpers.world import World, opening
from tests.lifecycle.logs import LOGS, OLD, missing, planned, week
from tests.lifecycle.ruled import plan_rules, set_rules
from tests.support.dying import Reached

MOVE = MoveToQuarantine()


class Cut(BaseException):
    """The end of a process."""


def cut_off(world: World, removal: Removal | None = None) -> str:
    """A run that is cut off right after its promotion; returns its id."""
    plan = planned(world)
    how = {} if removal is None else {"removal": removal}

    def work(world: World, **given: object) -> None:
        given["step"] = Reached("sweep data")
        world.apply(plan, **given, **how)  # type: ignore[arg-type]

    assert dies(world, work, 10_000)
    world.clock.advance(minutes=17)
    assert missing(world) == set()
    return plan.document.run


def run(
    world: World, storage: Storage | None = None, *, full: bool = False, **options: Any
) -> Collected:
    """Plan by the stored lifecycle rules and apply, as ``gc --lifecycle`` does."""
    used = storage or world.storage
    return collect(
        world.store(),
        world.engine(storage=used),
        PlanOptions(margins=world.margins, allowed_fraction=1.0),
        RunRequest(RunKind.LIFECYCLE, full=full),
        opener=opening(used),
        **options,
    )


def collect_and_run(world: World, *, limits: Limits = NO_LIMITS, **rules: Any) -> Collected:
    """A collection and then a run of lifecycle rules, as a scheduler runs them."""
    collect(
        world.store(),
        world.engine(),
        PlanOptions(policy=from_options(**rules), margins=world.margins, allowed_fraction=1.0),
        limits=limits,
        opener=opening(world.storage),
    )
    return run(world, limits=limits)


@pytest.mark.parametrize("removal", [None, MOVE], ids=["deleted", "moved"])
def test_the_next_run_finishes_one_that_was_cut_off(local: World, removal: Removal | None) -> None:
    first = cut_off(local, removal)
    assert [one.id for one in find_unfinished(local.store())] == [first]
    run(local)
    assert missing(local) == OLD
    assert len(local.aside()) == (5 if removal else 0)
    later, earlier = find_runs(local.store())
    assert (earlier.run.id, earlier.run.phase) == (first, Phase.DONE)
    # Each object is counted once, by the run that took it.
    assert [one.run.counts.objects for one in (later, earlier)] == [0, 5]
    assert not list(find_unfinished(local.store()))


def test_a_run_after_a_collection_finishes_it_too(local: World) -> None:
    first = cut_off(local)
    collect_and_run(local)
    assert missing(local) == OLD
    states = {one.run.id: one.run.phase for one in find_runs(local.store())}
    assert states[first] == Phase.DONE


def test_one_that_is_being_undone_is_left_to_that(local: World) -> None:
    first = cut_off(local, MOVE)
    local.undo(first)
    assert not list(find_unfinished(local.store()))
    assert missing(local) == set()


def test_one_without_its_plan_is_told_of(local: World, caplog: pytest.LogCaptureFixture) -> None:
    first = cut_off(local)
    for stored in list(local.storage.list(f"repos/{local.repo.uid}/_reclaim/runs/{first}")):
        local.storage.delete(stored.address)
    run(local)
    assert f"lifecycle run {first} cannot be finished" in caplog.text
    assert missing(local) == set()


def addresses(world: World) -> int:
    return len(raw.rows(world.repo, claimed_addresses))


def test_what_no_commit_has_any_more_is_forgotten_by_a_full_run(local: World) -> None:
    week(local)
    set_rules(local, LOGS)
    repo = local.other()
    side = repo.branch("side")
    side.put("logs/only here", b"only")
    side.commit("beside")
    repo._workspace.database.close()
    local.clock.advance(days=5)
    run(local)
    with pytest.raises(Gone):
        local.other().branch("side").get("logs/only here")
    assert addresses(local) == 8
    # As long as a commit has it, it is remembered, by every kind of run.
    run(local)
    run(local, full=True)
    assert addresses(local) == 8
    local.other().delete_branch("side")
    # Somebody could still come back to a commit that nothing reaches.
    run(local, full=True)
    assert addresses(local) == 8
    local.age()
    local.apply(local.plan(allowed_fraction=1.0))
    assert addresses(local) == 8
    run(local, full=True)
    assert addresses(local) == 7
    with pytest.raises(Gone):
        local.other().branch("main").get("logs/0")
    # And nothing is left of runs that took nothing.
    assert len(raw.rows(local.repo, claims)) == 2


def test_it_is_remembered_while_an_undo_could_bring_the_commit_back(local: World) -> None:
    local.apply(planned(local))
    repo = local.other()
    repo.branch("main").reset_to(repo.log("main")[-1].id)
    repo._workspace.database.close()
    local.age()
    collected = local.plan(allowed_fraction=1.0)
    local.apply(collected, removal=MOVE)
    run(local, full=True)
    assert addresses(local) == 5
    local.undo(collected.document.run)
    local.purge(run_id=None)
    # The undo holds what came back until the window is over.
    local.clock.advance(days=8)
    local.apply(local.plan(allowed_fraction=1.0))
    local.apply(plan_rules(local, LOGS, full=True))
    assert addresses(local) == 0
