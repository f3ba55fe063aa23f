"""Setting aside, bringing back, and the end of the window."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reclaim.catalog.database.schema import CommitState
from reclaim.errors import Conflict, Gone, PlanRefused, Refused
from reclaim.policy import Policy, Rules, from_options
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine
from reclaim.run_record import Phase
from tests.collect.helpers.world import World, bury, commit_states, leftovers, whole

pytestmark = pytest.mark.fast

MOVE = MoveToQuarantine()


def test_what_a_plan_lists_is_set_aside_and_comes_back(world: World) -> None:
    past = bury(world)
    before = world.there()
    plan = world.plan()
    done = world.apply(plan, removal=MOVE)
    assert done.until == world.clock.now() + timedelta(days=7)
    assert before - world.there() == world.aside() == set(world.candidates(plan))
    world.check()
    run = world.repo.runs()[0]
    assert run.quarantine is not None
    assert (run.phase, run.quarantine.removal) == (Phase.DONE, "moved")
    assert commit_states(world.repo)[past.first] == CommitState.QUARANTINED
    with pytest.raises(Gone, match=run.id):
        whole(world.other(), past.first)

    undone = world.undo(run.id)
    assert undone.left == ()
    assert undone.objects == len(world.candidates(plan))
    assert world.there() == before
    assert world.aside() == set()
    for commit, files in past.files.items():
        assert whole(world.other(), commit) == files
    assert world.repo.runs()[0].phase == Phase.UNDONE
    with pytest.raises(Conflict, match="undone already"):
        world.undo(run.id)
    with pytest.raises(PlanRefused, match="its run was undone"):
        world.apply(plan, removal=MOVE)


def test_what_came_back_is_safe_until_the_window_is_over_and_goes_then(world: World) -> None:
    past = bury(world)
    plan = world.plan()
    run = world.apply(plan, removal=MOVE).run
    before = world.undo(run)
    assert before.snapshots == 2
    world.clock.advance(days=6, hours=23)
    again = world.plan()
    assert again.document.candidates == 0
    world.apply(again)
    for commit, files in past.files.items():
        assert whole(world.other(), commit) == files
    world.clock.advance(hours=1)
    world.quiet()
    with pytest.raises(Gone):
        whole(world.other(), past.first)


def test_parents_and_refs_come_back_as_well(world: World) -> None:
    main = world.repo.branch("main")
    ids = []
    for number in range(4):
        main.put("a", f"{number}".encode())
        ids.append(main.commit(f"{number}").id)
        world.clock.advance(days=1)
    world.repo.create_tag("old", ids[1])
    world.age()
    policy = from_options(older_than="3d")
    log = [commit.id for commit in world.other().log("main")]
    plan = world.plan(policy, delete_expired_tags=True)
    run = world.apply(plan, removal=MOVE).run
    assert [commit.id for commit in world.other().log("main")] != log
    assert world.other().tags() == []
    assert world.undo(run).left == ()
    assert [commit.id for commit in world.other().log("main")] == log
    assert [ref.commit for ref in world.other().tags()] == [ids[1]]
    for number, commit in enumerate(ids):
        assert whole(world.other(), commit) == {"a": f"{number}".encode()}
    assert leftovers(world.repo) == {}


def test_what_changed_since_is_named_and_left(world: World) -> None:
    main = world.repo.branch("main")
    ids = []
    for number in range(4):
        main.put("a", f"{number}".encode())
        ids.append(main.commit(f"{number}").id)
        world.clock.advance(days=1)
    world.repo.create_tag("old", ids[1])
    world.age()
    run = world.apply(
        world.plan(from_options(older_than="3d"), delete_expired_tags=True), removal=MOVE
    ).run
    now = world.other().create_tag("old", "main")
    assert world.undo(run).left == ("the tag old",)
    assert world.other().commit("old").id == now.id


def test_what_is_shared_stays_until_the_window_is_over(world: World) -> None:
    past = bury(world)
    run = world.apply(world.plan(), removal=MOVE).run
    # What first and second share with main would go with main's own past.
    main = world.other().branch("main")
    for path in ("a", "b/1", "b/2", "c"):
        main.put(path, b"new")
    main.commit("new")
    for name in ("work", "clean"):
        world.other().delete_branch(name)
    world.age()
    world.apply(world.plan(Policy(Rules(keep_last=1)), allowed_fraction=1.0))
    assert past.keep not in {commit.id for commit in world.other().log("main")}
    undone = world.undo(run)
    assert (undone.snapshots, undone.left) == (2, ())
    for commit, files in past.files.items():
        assert whole(world.other(), commit) == files
    world.clock.advance(days=7)
    world.quiet()
    with pytest.raises(Gone):
        whole(world.other(), past.keep)


def test_a_purge_ends_the_window(world: World) -> None:
    past = bury(world)
    run = world.apply(world.plan(), removal=MoveToQuarantine(timedelta(days=3))).run
    there = world.there()
    assert world.purge() is None
    assert world.purge(timedelta(days=1)) is None
    world.clock.advance(days=3)
    assert world.aside()
    purged = world.purge()
    assert purged is not None
    assert purged.runs == [run]
    assert world.aside() == set()
    assert world.there() == there
    runs = {one.id: one for one in world.repo.runs()}
    assert runs[run].phase == Phase.PURGED
    assert (runs[purged.run].kind, runs[purged.run].phase) == ("purge", Phase.DONE)
    assert commit_states(world.repo)[past.first] == CommitState.COLLECTED
    with pytest.raises(Refused, match="purged"):
        world.undo(run)
    assert world.purge() is None
    world.quiet()


def test_a_purge_by_age(world: World) -> None:
    bury(world)
    world.apply(world.plan(), removal=MoveToQuarantine(timedelta(days=30)))
    world.clock.advance(days=2)
    assert world.purge(timedelta(days=3)) is None
    assert world.purge(timedelta(days=2)) is not None
    assert world.aside() == set()


def test_a_run_that_deleted_cannot_be_undone(world: World) -> None:
    bury(world)
    run = world.apply(world.plan()).run
    with pytest.raises(Refused, match="put nothing in quarantine"):
        world.undo(run)


def test_a_plan_goes_on_in_the_way_it_was_begun(world: World) -> None:
    bury(world)
    plan = world.plan()
    world.apply(plan, removal=MOVE)
    with pytest.raises(PlanRefused, match="first applied with --quarantine"):
        world.apply(plan, removal=DELETE)


def test_two_runs_and_both_undone(world: World) -> None:
    past = bury(world)
    first = world.apply(world.plan(), removal=MOVE).run
    main = world.other().branch("main")
    main.put("a", b"newer")
    main.commit("newer")
    world.age()
    second = world.apply(world.plan(Policy(Rules(keep_last=1))), removal=MOVE).run
    assert world.undo(second).left == ()
    assert world.undo(first).left == ()
    for commit, files in past.files.items():
        assert whole(world.other(), commit) == files
