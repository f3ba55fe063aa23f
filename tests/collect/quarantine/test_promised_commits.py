"""Commits that a run can bring back stay whole for as long as it can, and come back."""

from __future__ import annotations

import pytest

from reclaim.catalog.database.schema import CommitState
from reclaim.errors import Gone, Partial, StorageDenied
from reclaim.run.plan.planning import PlanOptions, find_candidates
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine, Removal
from reclaim.run_record import Phase
from reclaim.storage import Storage
from reclaim.stores.observation import Margins
from reclaim.testing.faults import FaultyStorage
from tests.collect.helpers.promised_history import DAY, MOVE, REMOVALS, apply_all, history
from tests.collect.helpers.world import (
    NAME,
    Interrupting,
    World,
    bury,
    commit_states,
    opening,
    stepped,
    whole,
)
from tests.collect.quarantine.test_promises import dies_at, run_of
from tests.support.dying import Died

# What is left at home of commits that a run set aside.


@pytest.mark.parametrize("later", REMOVALS)
def test_what_was_too_young_to_be_set_aside_is_not_taken(local: World, later: str) -> None:
    """An undo has made the data of a commit new; the next run takes only its containers."""
    local.margins = Margins(objects=3 * DAY)
    with local.opened() as catalog:
        repo = catalog.repository(NAME)
        for path in "abc":
            repo.branch("main").put(path, path.encode())
        repo.branch("main").commit("keep")
        branch = repo.create_branch("side", "main")
        branch.put("z", b"only in x")
        local.clock.advance(days=2)
        commit = branch.commit("x").id
        repo.delete_branch("side")
    local.clock.advance(days=2)
    first = apply_all(local, removal=MoveToQuarantine(DAY))
    local.undo(first)
    local.clock.advance(days=2)
    second = apply_all(local, removal=MOVE)
    assert commit_states(local.repo)[commit] == CommitState.QUARANTINED
    assert not any("/branches/" in address for address in local.aside())
    local.clock.advance(days=2)
    apply_all(local, removal=REMOVALS[later])
    local.clock.advance(hours=2)
    local.purge()
    assert local.undo(second).snapshots == 1
    assert whole(local.other(), commit)["z"] == b"only in x"


def test_what_was_in_an_open_partition_is_not_taken(local: World) -> None:
    """A process wrote data that others committed, and was killed in a commit of its own."""
    killing: list[Interrupting] = []

    def killed() -> None:
        raise Died

    def wrap(storage: Storage) -> Storage:
        killing.append(Interrupting(storage, "/meta/", lambda: None))
        return killing[-1]

    with local.opened() as catalog:
        repo = catalog.repository(NAME)
        for path in "abc":
            repo.branch("main").put(path, path.encode())
        repo.branch("main").commit("keep")
        for name in ("side", "other"):
            repo.create_branch(name, "main")
    writer = local.opened(wrap).repository(NAME)
    writer.branch("side").put("z", b"only in x")
    with local.opened() as catalog:
        commit = catalog.repository(NAME).branch("side").commit("x").id
    writer.branch("other").put("o", b"o")
    for one in killing:
        one._work = killed
    with pytest.raises(Died):
        writer.branch("other").commit("killed")
    with local.opened() as catalog:
        catalog.repository(NAME).delete_branch("side")
    local.age()
    run = apply_all(local, removal=MOVE)
    assert commit_states(local.repo)[commit] == CommitState.QUARANTINED
    with local.opened() as catalog:
        catalog.repository(NAME).branch("other").commit("finished by another")
    local.clock.advance(hours=1)
    for _ in range(2):
        apply_all(local)
    assert local.undo(run).snapshots == 1
    assert whole(local.other(), commit)["z"] == b"only in x"


def test_a_plan_without_a_record_goes_on_with_what_it_promised(local: World) -> None:
    """Its second apply plans again, and does not take its own promise for another's."""
    past = bury(local)
    options = PlanOptions(margins=local.margins, allowed_fraction=1.0)
    opener = opening(local.storage)
    plan = find_candidates(local.store(), local.engine(), options, opener=opener)
    stuck = max(address for address in local.candidates(plan) if "/branches/" in address)

    def denied(call: str, address: str) -> None:
        if call == "move" and stuck in address:
            raise StorageDenied(address)

    with pytest.raises(Partial):
        local.apply(plan, removal=MOVE, storage=FaultyStorage(local.storage, denied))
    local.apply(plan, removal=MOVE)
    assert stuck not in local.there()
    assert run_of(local, plan).phase == Phase.DONE
    local.age()
    apply_all(local)
    assert local.undo(plan.document.run).snapshots == 2
    for commit, files in past.files.items():
        assert whole(local.other(), commit) == files


# Commits that an earlier run left condemned.


def left_condemned(world: World, removal: Removal) -> tuple[str, str]:
    """Two commits, of which a run condemned both and took data of the first alone."""
    with world.opened() as catalog:
        repo = catalog.repository(NAME)
        branch = repo.create_branch("late", "main")
        branch.put("y", b"needed by the first alone")
        world.clock.advance(hours=30)
        first = branch.commit("first").id
        branch.delete("y")
        branch.put("z", b"needed by the second")
        world.clock.advance(minutes=5)
        second = branch.commit("second").id
        repo.delete_branch("late")
    world.clock.advance(hours=1)
    apply_all(world, removal=removal)
    states = commit_states(world.repo)
    assert {states[one] for one in (first, second)} == {CommitState.CONDEMNED}
    return first, second


@pytest.mark.parametrize("how", ["deleted", "purged"])
def test_a_commit_that_is_broken_is_not_promised_and_its_child_is(world: World, how: str) -> None:
    bury(world)
    apply_all(world)
    below = history(world, "main")
    first, second = left_condemned(world, DELETE if how == "deleted" else MoveToQuarantine(7 * DAY))
    world.clock.advance(days=7, hours=1)
    world.purge()
    run = apply_all(world, removal=MoveToQuarantine(7 * DAY))
    states = commit_states(world.repo)
    assert states[first] == CommitState.COLLECTED
    assert states[second] == CommitState.QUARANTINED
    undone = world.undo(run)
    assert undone.snapshots == 1
    assert any(second in sentence and first in sentence for sentence in undone.left)
    assert whole(world.other(), second)["z"] == b"needed by the second"
    assert [commit.id for commit in world.other().log(second)] == [second, *below]
    with pytest.raises(Gone):
        world.other().commit(first)
    assert {one.id: one for one in world.repo.runs()}[run].phase == Phase.UNDONE


def test_the_store_is_listed_for_them_before_the_roots_are_read(local: World) -> None:
    """From that read on there is a budget of time, which the listing of a large store breaks."""
    bury(local)
    apply_all(local)
    left_condemned(local, DELETE)
    local.age()
    steps: list[str] = []
    store = stepped(local.store(), steps.append)
    plan = local.plan(allowed_fraction=1.0)
    local.apply(plan, removal=MOVE, step=steps.append, store=store)
    read = steps.index("before observe")
    assert any(step.startswith("list ") for step in steps[:read])
    assert not any(step.startswith("list ") for step in steps[read:])


def test_commits_of_a_run_that_died_while_it_deleted_are_not_promised(local: World) -> None:
    past = bury(local)
    plan = local.plan()
    dies_at(local, "before collect", lambda **how: local.apply(plan, **how))
    with local.opened() as catalog:
        repo = catalog.repository(NAME)
        branch = repo.create_branch("new", "main")
        branch.put("n", b"n")
        commit = branch.commit("new").id
        repo.delete_branch("new")
    local.age()
    run = apply_all(local, removal=MOVE)
    states = commit_states(local.repo)
    assert {states[one] for one in (past.first, past.second)} == {CommitState.COLLECTED}
    assert local.undo(run).snapshots == 1
    assert whole(local.other(), commit)["n"] == b"n"


def test_whole_commits_of_a_run_that_died_come_back_with_the_run_that_takes_them(
    local: World,
) -> None:
    """Also if that run ends before it has settled anything."""
    past = bury(local)
    plan = local.plan()
    dies_at(local, "after promote", lambda **how: local.apply(plan, **how))
    second = local.plan(allowed_fraction=1.0)
    dies_at(local, "before set_aside", lambda **how: local.apply(second, removal=MOVE, **how))
    assert local.aside()
    assert local.undo(second.document.run).snapshots == 2
    for commit, files in past.files.items():
        assert whole(local.other(), commit) == files
