"""Two runs that edited the same commit: they are undone in any order, and nothing is lost."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from reclaim.errors import Partial, Refused
from reclaim.ids import short
from reclaim.policy import Policy, from_options
from reclaim.run.doctor.doctor import examine_store
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.run_record import Phase
from tests.collect.helpers.world import World, whole
from tests.support import expiring
from tests.support.expiring import take_back

LAST: Policy = from_options(keep_last=1)
OLD: Policy = from_options(older_than="1d")


@dataclass(frozen=True)
class Edited:
    """A history before two runs edited its tip, and the runs, the older first."""

    log: list[str]
    older: str
    newer: str


def expire(world: World, policy: Policy = LAST, *, delete_expired_tags: bool = False) -> str:
    run = expiring.expire(world.other(), policy, delete_expired_tags=delete_expired_tags)
    assert run is not None
    return run.id


def edit_twice(world: World, *, quarantine: bool) -> Edited:
    """The older run passes over the middle commit, the newer one over what a tag held."""
    main = world.repo.branch("main")
    for number in range(3):
        main.put("a", f"{number}".encode())
        main.commit(str(number))
        world.clock.advance(hours=1)
    log = [commit.id for commit in world.repo.log("main")]
    world.repo.create_tag("held", log[2])
    world.age()
    if quarantine:
        older = world.apply(world.plan(LAST, allowed_fraction=1.0), removal=MoveToQuarantine()).run
    else:
        older = expire(world)
    world.clock.advance(minutes=1)
    world.repo.delete_tag("held")
    return Edited(log, older, expire(world))


def log(world: World) -> list[str]:
    return [commit.id for commit in world.other().log("main")]


def check_back(world: World, edited: Edited) -> None:
    assert log(world) == edited.log
    assert {run.phase for run in world.repo.runs()} == {Phase.UNDONE}
    for commit in edited.log:
        whole(world.other(), commit)
    world.check()


def test_expirations_the_older_first(world: World) -> None:
    edited = edit_twice(world, quarantine=False)
    between = log(world)
    with pytest.raises(Refused, match=f"run {edited.newer} edited it since") as caught:
        take_back(world.repo, edited.older)
    assert f"reclaim undo {short(edited.newer)}" in (caught.value.hint or "")
    assert log(world) == between
    assert take_back(world.repo, edited.newer) == []
    assert take_back(world.repo, edited.older) == []
    check_back(world, edited)


def test_expirations_the_newer_first(local: World) -> None:
    edited = edit_twice(local, quarantine=False)
    assert take_back(local.repo, edited.newer) == []
    assert take_back(local.repo, edited.older) == []
    check_back(local, edited)


def test_a_quarantine_and_an_expiration_the_older_first(local: World) -> None:
    edited = edit_twice(local, quarantine=True)
    with pytest.raises(Partial, match=f"run {edited.newer} edited it since"):
        local.undo(edited.older)
    local.check()
    assert take_back(local.repo, edited.newer) == []
    assert local.undo(edited.older).left == ()
    check_back(local, edited)


def test_a_quarantine_and_an_expiration_the_newer_first(local: World) -> None:
    edited = edit_twice(local, quarantine=True)
    assert take_back(local.repo, edited.newer) == []
    assert local.undo(edited.older).left == ()
    check_back(local, edited)


def test_a_run_that_deleted_is_not_waited_for(local: World) -> None:
    """It cannot be undone: what it left is a change like any other."""
    edited = edit_twice(local, quarantine=False)
    take_back(local.repo, edited.newer)
    local.release_undos()
    local.clock.advance(minutes=1)
    collected = local.apply(local.plan(LAST, allowed_fraction=1.0)).run
    assert [run.phase for run in local.repo.runs() if run.id == collected] == [Phase.DONE]
    left = take_back(local.repo, edited.older)
    assert left == [f"the parents of commit {edited.log[0]}"]
    local.check()


def test_a_tag_that_was_deleted_twice(local: World) -> None:
    main = local.repo.branch("main")
    expirations = []
    for number in range(2):
        main.put("a", f"{number}".encode())
        local.repo.create_tag("tag", main.commit("old").id)
        local.age()
        main.put("a", f"{number}, newer".encode())
        main.commit("new")
        expirations.append(expire(local, OLD, delete_expired_tags=True))
        assert local.repo.tags() == []
    older, newer = expirations
    with pytest.raises(Refused, match=f"the tag tag: run {newer} edited it since"):
        take_back(local.repo, older)
    assert take_back(local.repo, newer) == []
    [tag] = local.repo.tags()
    assert take_back(local.repo, older) == ["the tag tag"]
    assert local.repo.tags() == [tag]


def hide(world: World, *, quarantine: bool) -> Edited:
    """The older run passes over two commits; the newer one over the commit that it edited."""
    main = world.repo.branch("main")
    for number, hours in enumerate((8 * 24, 8 * 24, 1, 30)):
        main.put("a", f"{number}".encode())
        main.commit(str(number))
        world.clock.advance(hours=hours)
    log = [commit.id for commit in world.repo.log("main")]
    last_two = from_options(keep_last=2)
    if quarantine:
        older = world.apply(
            world.plan(last_two, allowed_fraction=1.0), removal=MoveToQuarantine()
        ).run
    else:
        older = expire(world, last_two)
    world.clock.advance(minutes=1)
    newer = expire(world, from_options(keep_weekly=10))
    return Edited(log, older, newer)


@pytest.mark.parametrize("quarantine", [False, True], ids=["an expiration", "a quarantine"])
def test_what_a_later_run_hides_waits_for_it(local: World, quarantine: bool) -> None:
    """Brought back alone, it would hang on nothing."""
    edited = hide(local, quarantine=quarantine)
    assert log(local) == [edited.log[0], edited.log[-1]]

    def undo() -> object:
        return local.undo(edited.older) if quarantine else take_back(local.repo, edited.older)

    with pytest.raises((Refused, Partial), match=f"run {edited.newer} edited it since"):
        undo()
    if quarantine:
        # What is back is held for as long as the rest can come back.
        local.clock.advance(days=2)
        local.apply(local.plan(allowed_fraction=1.0))
        for commit in edited.log[2:4]:
            whole(local.other(), commit)


@pytest.mark.parametrize("quarantine", [False, True], ids=["an expiration", "a quarantine"])
def test_the_newer_first_where_it_hides_the_older(local: World, quarantine: bool) -> None:
    edited = hide(local, quarantine=quarantine)
    assert take_back(local.repo, edited.newer) == []
    if quarantine:
        assert local.undo(edited.older).left == ()
    else:
        assert take_back(local.repo, edited.older) == []
    check_back(local, edited)


def test_an_expiration_that_cannot_be_undone_is_not_waited_for(local: World) -> None:
    """A run that deleted took what it let go; the older run is undone, and says what is hidden."""
    edited = hide(local, quarantine=True)
    local.age()
    local.apply(local.plan(allowed_fraction=1.0))
    with pytest.raises(Refused, match="were deleted since"):
        take_back(local.repo, edited.newer)
    undone = local.undo(edited.older)
    assert undone.snapshots
    assert undone.left
    [run] = [run for run in local.repo.runs() if run.id == edited.older]
    assert run.phase == Phase.UNDONE
    local.check()


def test_doctor_says_how_an_undo_is_finished(local: World) -> None:
    edited = hide(local, quarantine=True)
    with pytest.raises(Partial):
        local.undo(edited.older)
    hints = [finding.hint for finding in examine_store(local.store()) if finding.check == "runs"]
    assert hints == [f"finish it: reclaim undo {short(edited.older)}"]
