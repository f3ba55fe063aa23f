"""Plans that edit the history and delete nothing: reviewed and applied like any other."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from reclaim.errors import Conflict, NotFound, Partial, PlanRefused, Refused, StorageUnavailable
from reclaim.policy import from_options
from reclaim.run.apply.finished_plan import finish_without_apply
from reclaim.run.gc import collect
from reclaim.run.plan import plan_file, plan_snapshots
from reclaim.run.plan.history_only import plan_history
from reclaim.run.plan.plan_document import HistoryOnly
from reclaim.run.plan.planning import PlanOptions, WrittenPlan
from reclaim.run.requests import RunKind, RunRequest
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine
from reclaim.run_record import EXPIRE, Phase
from tests.collect.helpers.dying import Frozen, dies
from tests.collect.helpers.world import At, World, opening, stepped
from tests.support.dying import Work
from tests.support.expiring import apply_expire, expire, plan_expire, take_back

LAST = from_options(keep_last=1)
DEATHS = 40
"""More than an apply has steps."""


@pytest.fixture
def log(local: World) -> list[str]:
    """The commits of main, the newest first; the oldest is the root."""
    main = local.repo.branch("main")
    for number in range(4):
        main.put("a", f"{number}".encode())
        main.commit(str(number))
        local.clock.advance(hours=1)
    local.age()
    return history(local)


def history(world: World, ref: str = "main") -> list[str]:
    return [commit.id for commit in world.other().log(ref)]


def down() -> None:
    raise StorageUnavailable("down")


def phases(world: World, plan: WrittenPlan) -> list[Phase]:
    return [run.phase for run in world.repo.runs() if run.id == plan.document.run]


def test_a_plan_says_what_it_edits(local: World, log: list[str]) -> None:
    local.repo.create_tag("old", log[1])
    local.repo.take_lease(log[3], holder="reader", length=local.margins.records)
    before = local.there()
    plan = plan_expire(local.repo, LAST, delete_expired_tags=True)
    document = plan.document
    assert document.history_only == HistoryOnly()
    assert (document.candidates, document.going, document.staying) == (0, [], [])
    assert document.history is not None
    change = document.history
    assert (change.reparented, change.released, change.held) == (1, 2, 1)
    assert (document.expired, document.leases) == (2, 1)
    decided = plan_snapshots.read(local.storage, document.snapshots.part)
    assert {*map(str, decided.released)} == {log[2], log[3]}
    assert plan_file.read(local.storage, plan.place) == document
    assert local.store().recorded_plan(document.run) == document.digest
    assert history(local) == log
    assert local.repo.runs() == []
    assert local.there() == before


def test_nothing_goes_by_it(local: World, log: list[str]) -> None:
    before = local.there()
    run = expire(local.repo, LAST)
    assert run is not None
    assert (run.kind, run.phase, run.quarantine) == (EXPIRE, Phase.DONE, None)
    assert run.counts.condemned == run.counts.objects == 0
    assert history(local) == [log[0], log[-1]]
    assert local.there() == before
    assert list(take_back(local.repo, run.id)) == []
    assert history(local) == log


def test_a_second_apply_does_nothing(local: World, log: list[str]) -> None:
    """What came back since stays, and an undo finds all that the first one edited."""
    plan = plan_expire(local.repo, LAST)
    local.repo.create_tag("kept", log[1])
    apply_expire(local.repo, plan)
    first = history(local)
    local.repo.delete_tag("kept")
    settled = finish_without_apply(
        local.store(), plan.place, plan.document, digest=None, removal=DELETE, exclude=()
    )
    assert settled is not None
    assert settled.before
    assert apply_expire(local.repo, plan) is not None
    assert history(local) == first
    take_back(local.repo, plan.document.run)
    assert history(local) == log


def test_one_that_edits_nothing_is_done(local: World, log: list[str]) -> None:
    plan = plan_expire(local.repo, from_options(keep_last=10))
    settled = finish_without_apply(
        local.store(), plan.place, plan.document, digest=None, removal=DELETE, exclude=()
    )
    assert settled is not None
    assert not settled.before
    [run] = local.repo.runs()
    assert (run.kind, run.phase) == (EXPIRE, Phase.DONE)
    with pytest.raises(Refused, match="edited no history"):
        take_back(local.repo, run.id)
    assert history(local) == log


def test_what_nothing_reaches_makes_no_plan(local: World, log: list[str]) -> None:
    """A commit that is out of the history already is not what such a plan is about."""
    expire(local.repo, LAST)
    options = PlanOptions(LAST)
    collected = collect(
        local.store(),
        local.engine(),
        options,
        RunRequest(RunKind.HISTORY_ONLY),
        opener=opening(local.storage),
    )
    assert collected.plan is not None
    assert collected.plan.document.dead
    assert collected.applied is None
    assert {run.kind for run in local.repo.runs()} == {EXPIRE}
    assert len(log) == 5


def test_plan_and_apply_in_one_go(local: World, log: list[str]) -> None:
    """How objects would be removed makes no difference."""
    options = PlanOptions(LAST)
    collected = collect(
        local.store(),
        local.engine(),
        options,
        RunRequest(RunKind.HISTORY_ONLY),
        removal=MoveToQuarantine(),
        opener=opening(local.storage),
    )
    assert collected.applied is not None
    assert collected.applied.until is None
    assert collected.applied.edit.released == 3
    assert history(local) == [log[0], log[-1]]
    [run] = local.repo.runs()
    assert (run.kind, run.promised) == (EXPIRE, None)
    assert local.undo(run.id).left == ()
    assert history(local) == log


def test_narrowed_to_a_ref(local: World, log: list[str]) -> None:
    side = local.repo.create_branch("side", log[-1])
    for number in range(3):
        side.put("b", f"{number}".encode())
        side.commit(f"side {number}")
    # Of main nothing would get out of reach.
    local.repo.create_tag("old", log[1])
    local.age()
    for branch in (side, local.repo.branch("main")):
        branch.put("c", b"new")
        branch.commit("new")
    main, before = history(local), history(local, "side")
    plan = plan_expire(local.repo, from_options(older_than="1d"), refs=["side"])
    assert plan.document.history_only == HistoryOnly(refs={"side": before[0]})
    apply_expire(local.repo, plan)
    assert history(local) == main
    assert history(local, "side") == [before[0], before[-1]]


@pytest.mark.parametrize("how", ["reset", "merge"])
def test_a_ref_that_reaches_more_since_narrows_to_what_it_reached(
    local: World, log: list[str], how: str
) -> None:
    side = local.repo.create_branch("side", log[-1])
    for number in range(3):
        side.put("b", f"{number}".encode())
        side.commit(f"side {number}")
    # A tag reaches what main would lose, so that nothing gets out of reach.
    local.repo.create_tag("old", log[1])
    local.age()
    for branch in (side, local.repo.branch("main")):
        branch.put(branch.name, b"new")
        branch.commit("new")
    main = history(local)
    plan = plan_expire(local.repo, from_options(older_than="1d"), refs=["side"])
    if how == "reset":
        side.reset_to("main")
    else:
        side.merge("main")
    apply_expire(local.repo, plan)
    assert history(local) == main


def test_an_apply_that_died_lies_above_what_came_before_it_was_repeated(
    local: World, log: list[str]
) -> None:
    """Undo goes by the times of edits, and not by those of plans."""
    first = plan_expire(local.repo, LAST)
    for fatal in range(1, DEATHS):
        assert dies(local, lambda world, **how: world.apply(first, **how), fatal)
        edited = history(local) != log
        local.quiet()
        if edited:
            break
    assert history(local) == log
    local.clock.advance(minutes=11)
    second = plan_expire(local.repo, from_options(keep_last=3))
    assert apply_expire(local.repo, second) is not None
    local.clock.advance(minutes=11)
    assert apply_expire(local.repo, first) is not None
    with pytest.raises(Refused, match="undo"):
        take_back(local.repo, second.document.run)
    take_back(local.repo, first.document.run)
    take_back(local.repo, second.document.run)
    assert history(local) == log


def test_its_ref_is_gone_by_the_apply(local: World, log: list[str]) -> None:
    local.repo.create_branch("side", "main")
    plan = plan_expire(local.repo, LAST, refs=["side"])
    local.repo.delete_branch("side")
    with pytest.raises(NotFound, match="no branch or tag 'side'"):
        apply_expire(local.repo, plan)
    assert phases(local, plan) == [Phase.STOPPED]
    assert history(local) == log


def test_a_run_at_work_excludes_it(local: World, log: list[str]) -> None:
    plan = plan_expire(local.repo, LAST)
    with local.store().lock("other"), pytest.raises(Conflict, match="run other is working"):
        apply_expire(local.repo, plan)
    assert phases(local, plan) == []
    assert history(local) == log
    assert apply_expire(local.repo, plan) is not None


@pytest.mark.parametrize("trusted", [False, True], ids=["nobody", "a person"])
def test_who_vouches_for_it(local: World, log: list[str], tmp_path: Path, trusted: bool) -> None:
    """Without engine and listing there is nothing to compare it with."""
    store = local.store()
    made = plan_history(store, PlanOptions(LAST), opener=opening(local.storage))
    # As if it were of a store that has forgotten its digest.
    plan = replace(made, document=made.document.model_copy(update={"run": "f" * 32}))
    document = plan_file.write(local.storage, plan.place, plan.document)
    digest = document.digest if trusted else None

    def apply() -> None:
        local.apply(replace(plan, document=document), store=store, digest=digest)

    if trusted:
        apply()
        assert history(local) == [log[0], log[-1]]
        return
    with pytest.raises(PlanRefused, match="has no record of the plan"):
        apply()
    assert history(local) == log


@pytest.mark.parametrize("step", ["after begin", "before edit_history", "after edit_history"])
def test_one_that_stops_leaves_no_trace(local: World, log: list[str], step: str) -> None:
    plan = plan_expire(local.repo, LAST)
    at = At(step, down)
    with pytest.raises(StorageUnavailable):
        apply_expire(stepped(local.store(), at), plan)
    assert at.done
    assert history(local) == log
    if "edit_history" in step:
        assert phases(local, plan) == [Phase.STOPPED]
    assert apply_expire(local.repo, plan) is not None
    assert history(local) == [log[0], log[-1]]
    take_back(local.repo, plan.document.run)
    assert history(local) == log


def test_one_that_may_have_been_recorded_stands(local: World, log: list[str]) -> None:
    """The error comes after the run was recorded as done: then its edit is not taken back."""
    plan = plan_expire(local.repo, LAST)
    at = At("after finish", down)
    with pytest.raises(Partial, match="was interrupted"):
        apply_expire(stepped(local.store(), at), plan)
    assert phases(local, plan) == [Phase.DONE]
    assert history(local) == [log[0], log[-1]]
    take_back(local.repo, plan.document.run)
    assert history(local) == log


@pytest.mark.parametrize("following", ["the same plan", "another plan", "its undo"])
def test_one_that_dies_at_any_step(local: World, log: list[str], following: str) -> None:
    plan = plan_expire(local.repo, LAST)
    frozen = Frozen(local)
    both = [log, [log[0], log[-1]]]
    work: Work = lambda world, **how: world.apply(plan, **how)  # noqa: E731
    seen = set()
    for fatal in range(DEATHS):
        world = frozen.thaw()
        if not dies(world, work, fatal):
            break
        assert history(world) in both
        seen.add(tuple(history(world)))
        world.clock.advance(minutes=11)
        done = phases(world, plan) == [Phase.DONE]
        if following == "the same plan":
            world.apply(plan)
            assert history(world) == both[1]
            assert phases(world, plan) == [Phase.DONE]
            world.undo(plan.document.run)
        elif following == "its undo" and phases(world, plan):
            with suppress(Refused):
                world.undo(plan.document.run)
        elif not done:
            world.store().clean()
            assert history(world) == log
            expire(world.repo, LAST)
            assert history(world) == both[1]
            continue
        if following != "another plan":
            assert history(world) == log
        world.check()
    else:
        pytest.fail("it has more steps")
    assert len(seen) == 2


def test_an_edit_that_a_dead_run_left_is_not_planned_from(local: World, log: list[str]) -> None:
    plan = plan_expire(local.repo, LAST)
    frozen = Frozen(local)
    for fatal in range(DEATHS):
        world = frozen.thaw()
        dies(world, lambda world, **how: world.apply(plan, **how), fatal)
        if history(world) != log:
            break
    with pytest.raises(Conflict, match="may still revert the edit"):
        plan_expire(world.repo, LAST)
    world.clock.advance(minutes=11)
    world.store().clean()
    assert history(world) == log
    assert phases(world, plan) == [Phase.STOPPED]
