"""An apply with rules that edited history and ended before it promoted: the edit is taken back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from reclaim.catalog.collection import locks
from reclaim.catalog.collection.edit.history_edit import set_parents
from reclaim.catalog.database.schema import CommitState, run_edits, run_refs
from reclaim.errors import (
    Conflict,
    DatabaseLocked,
    DatabaseUnavailable,
    OutOfSpace,
    Partial,
    PlanRefused,
    Refused,
    StorageUnavailable,
)
from reclaim.policy import Policy, from_options
from reclaim.run.apply.apply_plan import CollectionApplying
from reclaim.run.gc import collect
from reclaim.run.plan.planning import PlanOptions, WrittenPlan
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine, Removal
from reclaim.run_record import Phase, RecordedEdit, RunCounts
from reclaim.stores.catalog import HeldRepository
from tests.catalog import raw
from tests.collect.helpers.world import At, World, commit_states, leftovers, opening, stepped, whole
from tests.support import expiring
from tests.support.expiring import take_back

OLD: Policy = from_options(older_than="1d")
LAST: Policy = from_options(keep_last=1)


@pytest.fixture
def log(local: World) -> list[str]:
    """A history of which a policy keeps the tip and deletes a tag."""
    main = local.repo.branch("main")
    for number in range(4):
        main.put("a", f"{number}".encode())
        main.commit(str(number))
        local.clock.advance(hours=1)
    local.repo.create_tag("old", "main~1")
    local.age()
    main.put("a", b"newest")
    main.commit("newest")
    return [commit.id for commit in local.repo.log("main")]


def plan_old(world: World) -> WrittenPlan:
    return world.plan(OLD, delete_expired_tags=True, allowed_fraction=1.0)


class Killed(BaseException):
    """The end of a process, as far as a test can have it."""


def fail() -> None:
    raise StorageUnavailable("down")


def stop(world: World, plan: WrittenPlan, step: str = "after edit_history") -> None:
    at = At(step, fail)
    with pytest.raises((StorageUnavailable, Partial)):
        world.apply(plan, store=stepped(world.store(), at), step=at)


def kill(world: World, plan: WrittenPlan, step: str, removal: Removal = DELETE) -> None:
    """Apply a plan in a process that is killed at a step: it notes nothing, and has the lock."""

    def die() -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locks, "_give_back", lambda *_: None)
        patch.setattr(CollectionApplying, "_stop", lambda *_: None)
        at = At(step, die)
        with pytest.raises(Killed):
            world.apply(plan, store=stepped(world.store(), at), step=at, removal=removal)


def history(world: World) -> list[str]:
    return [commit.id for commit in world.other().log("main")]


def check_as_before(world: World, log: list[str]) -> None:
    """Commits, tag and bytes are as they were before anything was applied."""
    assert history(world) == log
    assert [tag.commit for tag in world.repo.tags()] == [log[2]]
    assert leftovers(world.repo) == {}
    for commit in log:
        whole(world.other(), commit)


def gc(world: World) -> None:
    options = PlanOptions(margins=world.margins, allowed_fraction=1.0)
    collect(world.store(), world.engine(), options, opener=opening(world.storage))


@pytest.mark.parametrize("removal", [DELETE, MoveToQuarantine()], ids=["deletes", "sets aside"])
@pytest.mark.parametrize(
    "step", ["after edit_history", "after condemn", "confirm", "before release"]
)
def test_one_that_stops_takes_its_edit_back(
    local: World, log: list[str], step: str, removal: Removal
) -> None:
    plan = plan_old(local)
    at = At(step, fail)
    with pytest.raises(StorageUnavailable):
        local.apply(plan, store=stepped(local.store(), at), step=at, removal=removal)
    check_as_before(local, log)
    [run] = local.repo.runs()
    assert (run.phase, run.error) == (Phase.STOPPED, "storage_unavailable")
    assert raw.rows(local.repo, run_edits) == raw.rows(local.repo, run_refs) == []
    local.age()
    gc(local)
    check_as_before(local, log)


def test_it_can_be_applied_again(local: World, log: list[str]) -> None:
    plan = plan_old(local)
    for step in ("after edit_history", "after condemn"):
        stop(local, plan, step)
        check_as_before(local, log)
    applied = local.apply(plan, removal=MoveToQuarantine())
    assert history(local) != log
    assert local.repo.tags() == []
    assert local.undo(applied.run).left == ()
    check_as_before(local, log)


def test_an_undo_of_it_has_nothing_left_to_do(local: World, log: list[str]) -> None:
    plan = plan_old(local)
    stop(local, plan)
    undone = local.undo(plan.document.run)
    assert (undone.objects, undone.snapshots, undone.left) == (0, 0, ())
    check_as_before(local, log)
    assert local.repo.runs()[0].phase == Phase.UNDONE
    with pytest.raises(Conflict, match="undone already"):
        local.undo(plan.document.run)
    with pytest.raises(PlanRefused, match="undone"):
        local.apply(plan)


DIED = ("after edit_history", "after condemn", "before promote")


@pytest.mark.parametrize("removal", [DELETE, MoveToQuarantine()], ids=["deletes", "sets aside"])
@pytest.mark.parametrize("step", DIED)
def test_one_that_was_killed_is_rolled_back_by_the_next_run(
    local: World, log: list[str], step: str, removal: Removal
) -> None:
    plan = plan_old(local)
    kill(local, plan, step, removal)
    edited = history(local)
    assert edited != log
    local.store().clean()
    assert history(local) == edited, "the run may still be at work"
    local.age()
    gc(local)
    check_as_before(local, log)
    assert [run.phase for run in local.repo.runs() if run.id == plan.document.run] == ["stopped"]
    assert local.undo(plan.document.run).left == ()
    check_as_before(local, log)


def expire(world: World) -> None:
    """As the command does it."""
    world.store().clean()
    expiring.expire(world.repo, from_options(keep_last=5))


NEXT: dict[str, Callable[[World, str], object]] = {
    "an expiration": lambda world, _: expire(world),
    "an undo of an expiration": lambda world, other: take_back(world.repo, other),
    "an apply": lambda world, _: world.apply(world.plan(allowed_fraction=1.0)),
}


@pytest.mark.parametrize("following", NEXT)
def test_whoever_has_the_lock_next_rolls_it_back(world: World, following: str) -> None:
    world.repo.create_branch("side", "main")
    for branch in (world.repo.branch("side"), world.repo.branch("main")):
        for number in range(3):
            branch.put("a", f"{branch.name} {number}".encode())
            branch.commit(str(number))
            world.clock.advance(hours=1)
    side = expiring.expire(world.repo, LAST, refs=["side"])
    assert side is not None
    parents = world.repo.commit("main").parents
    world.age()
    plan = world.plan(LAST, allowed_fraction=1.0)
    kill(world, plan, "after condemn", MoveToQuarantine())
    assert world.repo.commit("main").parents != parents
    world.clock.advance(minutes=11)
    NEXT[following](world, side.id)
    assert world.repo.commit("main").parents == parents
    assert {run.phase for run in world.repo.runs() if run.id == plan.document.run} == {"stopped"}
    world.check()


def test_one_that_was_killed_goes_on_when_it_is_applied_again(local: World, log: list[str]) -> None:
    plan = plan_old(local)
    kill(local, plan, "after condemn", MoveToQuarantine())
    local.clock.advance(minutes=11)
    applied = local.apply(plan, removal=MoveToQuarantine())
    assert history(local) != log
    assert local.undo(applied.run).left == ()
    check_as_before(local, log)


@pytest.mark.parametrize("step", ["before begin", "after edit_history", "after condemn"])
def test_a_second_apply_that_stops_takes_the_edit_of_the_first_back(
    local: World, log: list[str], step: str
) -> None:
    plan = plan_old(local)
    kill(local, plan, "after condemn", MoveToQuarantine())
    local.clock.advance(minutes=11)
    at = At(step, fail)
    with pytest.raises(StorageUnavailable):
        local.apply(plan, store=stepped(local.store(), at), step=at, removal=MoveToQuarantine())
    check_as_before(local, log)
    assert local.repo.runs()[0].phase == Phase.STOPPED


def test_one_that_was_killed_with_marks_is_undone(local: World, log: list[str]) -> None:
    plan = plan_old(local)
    kill(local, plan, "after condemn")
    assert local.repo.runs()[0].phase == Phase.STARTED
    assert CommitState.PROVISIONAL in leftovers(local.repo).values()
    with pytest.raises(Conflict):
        local.undo(plan.document.run)
    local.clock.advance(minutes=11)
    assert local.undo(plan.document.run).left == ()
    check_as_before(local, log)


@pytest.mark.parametrize("step", ["after promote", "sweep data"])
def test_what_was_promoted_is_not_rolled_back(local: World, log: list[str], step: str) -> None:
    plan = plan_old(local)
    kill(local, plan, step, MoveToQuarantine())
    local.age()
    edited = history(local)
    gc(local)
    assert history(local) == edited != log
    assert local.undo(plan.document.run).left == ()
    check_as_before(local, log)


def test_a_quarantine_without_dead_commits_is_not_forgotten(local: World) -> None:
    """Its edit condemns no commit; what it set aside is its own all the same."""
    main = local.repo.branch("main")
    main.put("staged", b"overwritten")
    main.put("staged", b"again")
    local.repo.create_tag("old", main.commit("old").id)
    local.age()
    plan = local.plan(OLD, delete_expired_tags=True, allowed_fraction=1.0)
    assert (plan.document.dead, plan.document.deleted_refs) == (0, ["old"])
    kill(local, plan, "sweep data", MoveToQuarantine())
    local.age()
    gc(local)
    run = local.store().find_run(plan.document.run)
    assert run is not None
    assert run.quarantine is not None
    assert run.quarantine.removal == "moved"
    assert local.undo(plan.document.run).left == ()


def test_an_edit_that_stays_is_told(local: World, log: list[str]) -> None:
    """Somebody edited on from it: it cannot be taken back, and the end is partial."""
    plan = plan_old(local)

    def edit_on() -> None:
        with local.repo._workspace.database.write() as connection:
            set_parents(connection, local.repo.uid, log[0], (), marked=True)
        fail()

    at = At("after edit_history", edit_on)
    with pytest.raises(Partial) as caught:
        local.apply(plan, store=stepped(local.store(), at), step=at)
    assert caught.value.details["cause"]["kind"] == "storage_unavailable"
    [run] = local.repo.runs()
    assert run.phase == Phase.STOPPED
    assert run.edit.left == (f"the parents of commit {log[0]}",)
    assert [tag.commit for tag in local.repo.tags()] == [log[2]]
    assert local.undo(run.id).left == (f"the parents of commit {log[0]}",)


def test_so_is_one_when_the_database_is_away(local: World, log: list[str]) -> None:
    """It cannot be taken back now; whoever comes next does."""
    plan = plan_old(local)

    def away(*_: object) -> None:
        raise DatabaseUnavailable("away")

    with pytest.MonkeyPatch.context() as patch:

        def go() -> None:
            for name in ("abandon", "roll_back", "finish"):
                patch.setattr(HeldRepository, name, away)
            away()

        with pytest.raises(Partial) as caught:
            local.apply(plan, store=stepped(local.store(), At("after edit_history", go)))
    assert caught.value.details["cause"]["kind"] == "database_unavailable"
    assert history(local) != log
    gc(local)
    check_as_before(local, log)


def test_one_that_condemned_something_cannot_be_undone(local: World, log: list[str]) -> None:
    plan = plan_old(local)
    stop(local, plan, "sweep data")
    with pytest.raises(Refused, match="put nothing in quarantine"):
        local.undo(plan.document.run)
    # Whatever its record says.
    with local.store().lock(plan.document.run) as held:
        run = local.store().find_run(plan.document.run)
        assert run is not None
        unedited = replace(run, counts=RunCounts(), edit=RecordedEdit())
        held.finish(replace(unedited, phase=Phase.STOPPED))
    with pytest.raises(Refused, match="and deleted objects"):
        local.undo(plan.document.run)
    assert [commit.id for commit in local.repo.log("main")] != log
    local.apply(plan)
    local.check()


def test_one_that_edited_nothing_has_nothing_to_undo(local: World, log: list[str]) -> None:
    plan = local.plan()
    stop(local, plan, "before close_overdue")
    with pytest.raises(Refused, match="nothing to undo"):
        local.undo(plan.document.run)
    assert [commit.id for commit in local.repo.log("main")] == log


MADE_ANEW: dict[str, Callable[[World, list[str]], object]] = {
    "where it was": lambda world, log: world.repo.create_tag("old", log[2]),
    "elsewhere": lambda world, log: world.repo.create_tag("old", log[0]),
}


@pytest.mark.parametrize("made", MADE_ANEW)
@pytest.mark.parametrize("rolled_back", [False, True], ids=["again", "rolled back first"])
def test_a_tag_that_was_made_anew_is_somebody_elses(
    local: World, log: list[str], made: str, rolled_back: bool
) -> None:
    """The plan deleted its own; the new one stays, and holds what it names."""
    plan = plan_old(local)
    kill(local, plan, "after edit_history")
    local.clock.advance(minutes=11)
    assert local.repo.tags() == []
    MADE_ANEW[made](local, log)
    [tag] = local.repo.tags()
    if rolled_back:
        local.store().clean()
        assert history(local) == log
    for _ in range(2):
        local.apply(plan)
    assert local.repo.tags() == [tag]
    assert commit_states(local.repo)[tag.commit] == CommitState.LIVE
    local.check()


NOT_SAVED: dict[str, BaseException] = {
    "another writer": DatabaseLocked("locked by another writer for 30 s"),
    "a full disk": OutOfSpace("the disk of the database is full"),
    "a lost connection": DatabaseUnavailable("whether it was saved is not known"),
    "a person": KeyboardInterrupt(),
}


@pytest.mark.parametrize("removal", [DELETE, MoveToQuarantine()], ids=["deletes", "sets aside"])
@pytest.mark.parametrize("cause", NOT_SAVED)
def test_a_promote_that_was_not_saved_did_not_happen(
    local: World, log: list[str], cause: str, removal: Removal
) -> None:
    """What it would have promised, another run would collect for good."""
    plan = plan_old(local)
    error = NOT_SAVED[cause]

    def refuse() -> None:
        raise error

    with pytest.raises(type(error)):
        local.apply(
            plan, store=stepped(local.store(), At("before promote", refuse)), removal=removal
        )
    check_as_before(local, log)
    assert local.repo.runs()[0].phase == Phase.STOPPED
    local.age()
    gc(local)
    check_as_before(local, log)
    assert local.undo(plan.document.run).left == ()
    check_as_before(local, log)


@pytest.mark.parametrize("step", ["before taken", "before restore", "after finish"])
@pytest.mark.parametrize("killed", [False, True], ids=["fails", "killed"])
def test_an_undo_of_it_that_is_cut_off(
    local: World, log: list[str], step: str, killed: bool
) -> None:
    """Its edit does not become one that was made for good."""
    plan = plan_old(local)
    kill(local, plan, "after edit_history", MoveToQuarantine())
    local.clock.advance(minutes=11)

    def cut_off() -> None:
        raise Killed if killed else StorageUnavailable("down")

    at = At(step, cut_off)
    with pytest.MonkeyPatch.context() as patch:
        if killed:
            patch.setattr(locks, "_give_back", lambda *_: None)
        with pytest.raises((Killed, StorageUnavailable, Partial)):
            local.undo(plan.document.run, store=stepped(local.store(), at), step=at)
    assert at.done
    local.age()
    gc(local)
    check_as_before(local, log)
    assert local.undo(plan.document.run).left == ()
    check_as_before(local, log)
