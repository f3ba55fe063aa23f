"""Lists and notes of a run that are damaged or gone."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from reclaim.engine.tasks.deleting import JOURNAL
from reclaim.engine.tasks.notes import RETURNED
from reclaim.engine.tasks.parts import Place
from reclaim.errors import LockLost, Partial, Refused, StorageDenied
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.run_record import Phase
from reclaim.storage import hashed_files
from reclaim.testing.faults import FaultyStorage
from tests.collect.apply.test_lists import DAMAGES, MOVE, bury_next, damage, elsewhere, parts_of
from tests.collect.helpers.world import At, World, bury
from tests.collect.quarantine.test_promises import aside_of, check_back, dies_at, run_of


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("folder", ["journal", "objects"])
def test_a_damaged_file_of_a_record_and_an_undo(local: World, folder: str, how: str) -> None:
    past = bury(local)
    plan = local.plan()
    run = local.apply(plan, removal=MOVE).run
    DAMAGES[how](local, parts_of(local, plan, folder)[0])
    assert local.undo(run).snapshots == 2
    assert not local.aside()
    check_back(local, past)


@pytest.mark.parametrize("folder", ["journal", "objects"])
def test_a_damaged_file_of_a_record_and_a_purge_of_all(local: World, folder: str) -> None:
    bury(local)
    first = local.plan()
    local.apply(first, removal=MoveToQuarantine(timedelta(days=3)))
    damage(local, parts_of(local, first, folder)[0])
    bury_next(local)
    second = local.apply(
        local.plan(allowed_fraction=1.0), removal=MoveToQuarantine(timedelta(days=1))
    ).run
    local.clock.advance(days=9)
    purged = local.purge()
    assert purged is not None
    assert set(purged.runs) == {first.document.run, second}
    assert not local.aside()


@pytest.mark.parametrize("folder", ["journal", "objects"])
def test_a_damaged_file_of_an_unfinished_run(local: World, folder: str) -> None:
    """Nobody knows what it promised, or took, until its plan is applied again."""
    past = bury(local)
    plan = local.plan()
    dies_at(local, "before set_aside", lambda **how: local.apply(plan, removal=MOVE, **how))
    damage(local, parts_of(local, plan, folder)[0])
    local.age()
    if folder == "objects":
        with pytest.raises(Refused, match="are incomplete") as refused:
            local.plan(allowed_fraction=1.0)
        assert f"reclaim apply {plan.place}" in (refused.value.hint or "")
    local.apply(plan, removal=MOVE)
    local.plan(allowed_fraction=1.0)
    assert local.undo(plan.document.run).snapshots == 2
    assert not local.aside()
    check_back(local, past)


def test_an_apply_again_that_dies_before_it_has_new_lists(local: World) -> None:
    """A list that was given up is not forgotten before another has what it had."""
    bury(local)
    plan = local.plan()
    dies_at(local, "before set_aside", lambda **how: local.apply(plan, removal=MOVE, **how))
    damage(local, parts_of(local, plan, "objects")[0])
    dies_at(local, "before observe", lambda **how: local.apply(plan, removal=MOVE, **how))
    local.age()
    with pytest.raises(Refused, match="are incomplete"):
        local.plan(allowed_fraction=1.0)


def test_a_list_of_an_earlier_apply_that_is_gone(local: World) -> None:
    """The record says that there were more than the other lists have."""
    past = bury(local)
    plan = local.plan()
    stuck = max(address for address in local.candidates(plan) if "/meta/" in address)

    def denied(call: str, address: str) -> None:
        if call == "move" and stuck in address:
            raise StorageDenied(address)

    with pytest.raises(Partial):
        local.apply(plan, removal=MOVE, storage=FaultyStorage(local.storage, denied))
    first = [stored.address for stored in local.storage.list(plan.place.at("apply"))]
    local.apply(plan, removal=MOVE)
    for address in first:
        local.storage.delete(address)
    assert local.undo(plan.document.run).snapshots == 2
    assert not local.aside()
    check_back(local, past)


def test_lists_that_are_gone_and_an_apply_again(local: World) -> None:
    """Nothing is moved over what is aside already."""
    bury(local)
    plan = local.plan()
    dies_at(local, "before set_aside", lambda **how: local.apply(plan, removal=MOVE, **how))
    for stored in list(local.storage.list(plan.place.at("apply"))):
        local.storage.delete(stored.address)
    home = next(one for one in local.candidates(plan) if "/branches/" in one)
    kept = local.storage.get(aside_of(local, plan.document.run, home))
    local.storage.put(home, kept[::-1])
    with pytest.raises(Partial):
        local.apply(plan, removal=MOVE)
    assert local.storage.get(aside_of(local, plan.document.run, home)) == kept


def test_what_only_a_list_had_that_was_given_up(local: World) -> None:
    """The apply that repeated it need not have taken the same; what is aside comes back."""
    bury(local)
    plan = local.plan()
    run = plan.document.run
    dies_at(local, "before set_aside", lambda **how: local.apply(plan, removal=MOVE, **how))
    home = f"repos/{local.repo.uid}/branches/old/p/only"
    local.storage.put(aside_of(local, run, home), b"in the first list only")
    for stored in list(local.storage.list(plan.place.at("apply"))):
        local.storage.delete(stored.address)
    local.apply(plan, removal=MOVE)
    local.undo(run)
    assert local.storage.get(home) == b"in the first list only"


def test_a_run_that_cannot_be_purged_holds_up_no_other(local: World) -> None:
    bury(local)
    first = local.plan()
    local.apply(first, removal=MoveToQuarantine(timedelta(days=3)))
    bury_next(local)
    second = local.apply(
        local.plan(allowed_fraction=1.0), removal=MoveToQuarantine(timedelta(days=1))
    ).run
    damage(local, parts_of(local, first, "objects")[0])
    folder = Path(local.backend.location) / "objects"
    folder = folder / aside_of(local, first.document.run, f"repos/{local.repo.uid}/branches")
    (folder / "link").symlink_to("old")
    local.clock.advance(days=9)
    named = f"purged 1 runs; run {first.document.run} was not purged"
    with pytest.raises(Partial, match=named) as left:
        local.purge()
    assert left.value.details["skipped"] == [first.document.run]
    assert left.value.details["runs"] == [second]
    states = {run.id: run.phase for run in local.repo.runs()}
    assert states[second] == Phase.PURGED
    assert states[first.document.run] == Phase.DONE
    assert Phase.PARTIAL in states.values()
    (folder / "link").unlink()
    purged = local.purge()
    assert purged is not None
    assert purged.runs == [first.document.run]
    assert not local.aside()


def two_runs(world: World, place: Place | None = None) -> tuple[WrittenPlan, str]:
    """Two runs whose windows end: the plan of the first, and the id of the second."""
    bury(world)
    first = world.plan(place=place)
    world.apply(first, removal=MoveToQuarantine(timedelta(days=1)))
    bury_next(world)
    second = world.plan(allowed_fraction=1.0)
    world.apply(second, removal=MoveToQuarantine(timedelta(days=1)))
    world.clock.advance(days=9)
    return first, second.document.run


NOTES = {
    "other columns": pa.table({"x": [1]}),
    "a null": pa.Table.from_pylist(
        [{"address": "a", "size": 1, "kind": "", "reason": "", "outcome": "returned"}],
        schema=JOURNAL,
    ),
    "other types": pa.table(
        {
            "address": [1],
            "size": ["x"],
            "kind": [""],
            "reason": [""],
            "outcome": ["returned"],
            "identity": ["a b"],
        }
    ),
}


@pytest.mark.parametrize("note", NOTES)
def test_a_note_that_no_task_wrote(local: World, note: str) -> None:
    """The folder of the quarantine tells, for an undo and for a purge."""
    first, second = two_runs(local, elsewhere(local))
    hashed_files.write(local.storage, first.place.at(f"undo/0/{RETURNED}/1"), NOTES[note])
    assert local.undo(second).snapshots == 1
    assert local.purge(timedelta(0)) is not None
    assert run_of(local, first).phase == Phase.PURGED


def test_a_plan_of_a_thousand_brackets(local: World) -> None:
    first, second = two_runs(local, elsewhere(local))
    local.storage.put(first.place.at("plan.json"), b"[" * 200_000)
    purged = local.purge()
    assert purged is not None
    assert set(purged.runs) == {first.document.run, second}


def test_whatever_stops_one_run_the_others_are_purged(local: World) -> None:
    first, second = two_runs(local)

    def odd() -> None:
        raise TypeError("odd")

    at = At("sweep quarantine", odd)
    with pytest.raises(Partial, match=r"purged 1 runs; run .* was not purged: TypeError: odd"):
        local.purge(step=at)
    states = {run.id: run.phase for run in local.repo.runs()}
    assert states[second] == Phase.PURGED
    assert states[first.document.run] == Phase.PURGING
    assert local.purge() is not None
    assert not local.aside()


def test_a_purge_that_loses_its_lock_says_what_it_did(local: World) -> None:
    first, second = two_runs(local)

    def lost() -> None:
        raise LockLost("the lock is gone")

    at = At("sweep quarantine", lost, nth=2)
    told = r"purged 1 runs; run .* was interrupted: the lock is gone"
    with pytest.raises(Partial, match=told):
        local.purge(step=at)
    states = {run.id: run.phase for run in local.repo.runs()}
    assert states[first.document.run] == Phase.PURGED
    assert states[second] == Phase.PURGING
