"""Marks that a run left on live commits when it died: whoever comes next takes them off."""

from __future__ import annotations

import pytest

from reclaim.catalog.collection import locks
from reclaim.catalog.database.schema import CommitState
from reclaim.errors import Conflict
from reclaim.policy import Policy, from_options
from reclaim.run.gc import collect
from reclaim.run.plan.planning import PlanOptions
from reclaim.run.sweep.removal import MoveToQuarantine
from tests.catalog import raw
from tests.collect.helpers.world import At, World, bury, commit_states, opening, stepped
from tests.support import expiring
from tests.support.expiring import take_back

LAST: Policy = from_options(keep_last=1)


def die_with_marks(world: World) -> set[str]:
    """A run dies with the lock in hand and every commit marked, as if somebody had named them."""
    store = world.store()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locks, "_give_back", lambda *_: None)
        with store.lock("dead"):
            for one, state in commit_states(world.repo).items():
                if state == CommitState.LIVE:
                    raw.condemn(world.repo, one, CommitState.PROVISIONAL)
    return marked(world)


def marked(world: World) -> set[str]:
    states = commit_states(world.repo)
    return {one for one, state in states.items() if state == CommitState.PROVISIONAL}


def commits_on_main(world: World) -> list[str]:
    main = world.repo.branch("main")
    for number in range(3):
        main.put("a", f"{number}".encode())
        main.commit(str(number))
        world.clock.advance(hours=1)
    return [commit.id for commit in world.repo.log("main")]


def expire(world: World) -> str | None:
    run = expiring.expire(world.repo, LAST)
    return None if run is None else run.id


def test_a_gc_with_nothing_to_do(world: World) -> None:
    commits_on_main(world)
    marks = die_with_marks(world)
    assert marks

    def gc() -> None:
        options = PlanOptions(margins=world.margins)
        done = collect(world.store(), world.engine(), options, opener=opening(world.storage))
        assert done.applied is None

    gc()
    assert marked(world) == marks, "the run that made them may still hold the lock"
    world.clock.advance(minutes=11)
    gc()
    assert marked(world) == set()
    world.repo.create_tag("tag", "main~1")
    world.check()


def test_an_expiration(local: World) -> None:
    commits_on_main(local)
    die_with_marks(local)
    with pytest.raises(Conflict):
        expire(local)
    local.clock.advance(minutes=11)
    assert expire(local) is not None
    assert marked(local) == set()
    local.check()


def test_an_expiration_with_nothing_to_do(local: World) -> None:
    commits_on_main(local)
    expire(local)
    die_with_marks(local)
    local.clock.advance(minutes=11)
    assert expire(local) is None
    assert marked(local) == set()


def test_an_undo_of_an_expiration(world: World) -> None:
    log = commits_on_main(world)
    run = expire(world)
    assert run is not None
    assert [commit.id for commit in world.repo.log("main")] != log
    die_with_marks(world)
    with pytest.raises(Conflict, match="run dead is working"):
        take_back(world.repo, run)
    world.clock.advance(minutes=11)
    assert take_back(world.repo, run) == []
    assert marked(world) == set()
    assert [commit.id for commit in world.repo.log("main")] == log


def test_an_undo_of_an_apply(local: World) -> None:
    bury(local)
    plan = local.plan()
    local.apply(plan, removal=MoveToQuarantine())
    die_with_marks(local)
    local.clock.advance(minutes=11)
    assert local.undo(plan.document.run).left == ()
    assert marked(local) == set()
    local.check()


def test_marks_of_a_run_that_works_are_its_own(world: World) -> None:
    """Without its marks, somebody could name what it is about to take."""
    past = bury(world)
    plan = world.plan()
    before = world.there()
    kept: list[set[str]] = []

    def others() -> None:
        for take_off in (world.store().clean, world.store().clean):
            take_off()
            kept.append(marked(world))
        with pytest.raises(Conflict):
            take_back(world.repo, "any")

    world.apply(plan, store=stepped(world.store(), At("before promote", others)))
    assert kept == [{past.first, past.second}] * 2
    world.check_swept(plan, before)
