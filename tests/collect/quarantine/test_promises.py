"""What a run has promised to give back, in spite of runs that die, overlap, or end halfway."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pyarrow as pa
import pytest

from reclaim.catalog.database.schema import CommitState
from reclaim.errors import Partial, PlanRefused, Refused, StorageDenied
from reclaim.policy import Policy, Rules
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine, Removal
from reclaim.run_record import Phase, RunRecord
from reclaim.storage import Storage
from reclaim.testing.faults import FaultyStorage
from reclaim.testing.storage import StorageWrapper
from tests.collect.helpers.dying import dies
from tests.collect.helpers.world import NAME, At, Past, World, bury, commit_states, stepped, whole
from tests.support.dying import Died

MOVE = MoveToQuarantine()


def check_back(world: World, past: Past) -> None:
    for commit, files in past.files.items():
        assert whole(world.other(), commit) == files


def die() -> None:
    raise Died


def dies_at(world: World, step: str, work: Callable[..., object]) -> None:
    """A process ends at a step, and its lock runs out."""
    with pytest.raises(Died):
        work(store=stepped(world.store(), At(step, die)))
    world.clock.advance(minutes=12)


def run_of(world: World, plan: WrittenPlan) -> RunRecord:
    return next(run for run in world.repo.runs() if run.id == plan.document.run)


def aside_of(world: World, run: str, home: str) -> str:
    prefix = f"repos/{world.repo.uid}/"
    return f"{prefix}_reclaim/quarantine/{run}/{home.removeprefix(prefix)}"


@pytest.mark.parametrize(
    "later", [DELETE, MoveToQuarantine(timedelta(days=1))], ids=["deletes", "moves"]
)
def test_a_run_that_died_before_it_settled_keeps_its_commits(local: World, later: Removal) -> None:
    """Another run neither takes its commits over nor ends its window."""
    world, past = local, bury(local)
    plan = world.plan()
    dies_at(world, "before set_aside", lambda **how: world.apply(plan, removal=MOVE, **how))
    assert world.aside()
    world.age()
    world.apply(world.plan(allowed_fraction=1.0), removal=later)
    world.clock.advance(days=2)
    world.purge()
    undone = world.undo(plan.document.run)
    assert undone.snapshots == 2
    check_back(world, past)


def test_what_a_cut_off_undo_brought_back_is_not_taken(local: World) -> None:
    world, past = local, bury(local)
    plan = world.plan()
    run = world.apply(plan, removal=MOVE).run
    dies_at(world, "before restore", lambda **how: world.undo(run, **how))
    assert not world.aside()
    world.age()
    world.apply(world.plan(allowed_fraction=1.0))
    assert set(world.candidates(plan)) <= world.there()
    assert world.undo(run).snapshots == 2
    check_back(world, past)


def test_an_undo_that_was_cut_off_reports_all_that_came_back(local: World) -> None:
    bury(local)
    plan = local.plan()
    run = local.apply(plan, removal=MOVE).run
    dies_at(local, "before restore", lambda **how: local.undo(run, **how))
    undone = local.undo(run)
    assert undone.objects == plan.document.candidates
    assert undone.bytes == plan.document.candidate_bytes


def test_an_apply_that_was_cut_off_reports_all_that_went(local: World) -> None:
    bury(local)
    plan = local.plan()
    dies_at(local, "before set_aside", lambda **how: local.apply(plan, removal=MOVE, **how))
    done = local.apply(plan, removal=MOVE).summary()
    assert done["objects"] == plan.document.candidates
    assert done["bytes"] == plan.document.candidate_bytes
    assert (done["condemned"], done["collected"]) == (2, 2)
    assert run_of(local, plan).counts.objects == plan.document.candidates


@pytest.mark.parametrize("size", ["other", "same"])
def test_a_foreign_object_at_a_home_stops_nothing_else(world: World, size: str) -> None:
    """Commits that do not need it come back; it is named and left; later all come back."""
    past = bury(world)
    plan = world.plan()
    run = world.apply(plan, removal=MOVE).run
    reader = world.storage
    home = next(
        address
        for address in sorted(world.candidates(plan))
        if "/branches/" in address and reader.get(aside_of(world, run, address)) == b"old y"
    )
    foreign = b"ODD Y" if size == "same" else b"somebody else's"
    world.storage.put(home, foreign)
    with pytest.raises(Partial) as partial:
        world.undo(run)
    assert home in str(partial.value)
    assert partial.value.details["restored"] == 1
    assert whole(world.other(), past.first) == past.files[past.first]
    assert world.storage.get(home) == foreign
    assert world.storage.get(aside_of(world, run, home)) == b"old y"
    # Whatever runs meanwhile, the rest of it is promised.
    world.age()
    world.apply(world.plan(allowed_fraction=1.0), removal=DELETE)
    world.storage.delete(home)
    assert world.undo(run).snapshots == 1
    assert whole(world.other(), past.second) == past.files[past.second]
    assert run_of(world, plan).phase == Phase.UNDONE


def test_many_objects_that_cannot_come_back_hold_up_no_other_commit(local: World) -> None:
    """However many: a few are named, and all are counted."""
    past = bury(local)
    with local.opened() as catalog:
        repo = catalog.repository(NAME)
        branch = repo.create_branch("many", "main")
        for number in range(8):
            branch.put(f"many/{number}", b"many")
        many = branch.commit("many").id
        repo.delete_branch("many")
    local.age()
    plan = local.plan(allowed_fraction=1.0)
    run = local.apply(plan, removal=MOVE).run
    homes = [
        home
        for home in local.candidates(plan)
        if local.storage.get(aside_of(local, run, home)) == b"many"
    ]
    for home in homes:
        local.storage.put(home, b"somebody else's")
    with pytest.raises(Partial, match="9 could not be restored") as partial:
        local.undo(run)
    assert (partial.value.details["failed"], partial.value.details["restored"]) == (8, 2)
    check_back(local, past)
    for home in homes:
        local.storage.delete(home)
    assert local.undo(run).snapshots == 1
    assert whole(local.other(), many)["many/7"] == b"many"


def test_the_same_bytes_at_a_home_are_enough(local: World) -> None:
    past = bury(local)
    plan = local.plan()
    run = local.apply(plan, removal=MOVE).run
    home = min(local.candidates(plan))
    local.storage.put(home, local.storage.get(aside_of(local, run, home)))
    assert local.undo(run).left == ()
    assert not local.aside()
    check_back(local, past)


class Forgetful(StorageWrapper):
    """Leaves some objects out of every listing."""

    def __init__(self, inner: Storage, hidden: str) -> None:
        super().__init__(inner)
        self._hidden = hidden

    def batches(self, prefix: str = "", *, after: str = "", until: str = ""):  # type: ignore[no-untyped-def]
        for batch in super().batches(prefix, after=after, until=until):
            kept = [self._hidden not in one for one in batch.column("address").to_pylist()]
            yield batch.filter(pa.array(kept))


def test_an_undo_does_not_go_by_a_listing(local: World) -> None:
    bury(local)
    plan = local.plan()
    run = local.apply(plan, removal=MOVE).run
    local.undo(run, storage=Forgetful(local.storage, "/quarantine/"))
    assert not local.aside()
    assert set(local.candidates(plan)) <= local.there()


def test_a_partial_apply_and_a_run_that_deletes(local: World) -> None:
    """What the first could not take yet is not taken by another."""
    world, past = local, bury(local)
    plan = world.plan()
    stuck = max(address for address in world.candidates(plan) if "/meta/" in address)

    def denied(call: str, address: str) -> None:
        if call == "move" and stuck in address:
            raise StorageDenied(f"cannot move {address}")

    with pytest.raises(Partial):
        world.apply(plan, removal=MOVE, storage=FaultyStorage(world.storage, denied))
    world.age()
    world.apply(world.plan(allowed_fraction=1.0), removal=DELETE)
    assert stuck in world.there()
    assert world.undo(plan.document.run).snapshots == 2
    check_back(world, past)


def test_a_partial_apply_can_be_finished_after_a_run_that_deletes(local: World) -> None:
    world = local
    bury(world)
    plan = world.plan()
    dies_at(world, "before set_aside", lambda **how: world.apply(plan, removal=MOVE, **how))
    world.age()
    world.apply(world.plan(allowed_fraction=1.0), removal=DELETE)
    assert world.apply(plan, removal=MOVE).summary()["collected"] == 2
    assert CommitState.CONDEMNED not in commit_states(world.repo).values()
    assert world.purge(timedelta(0)) is not None
    world.quiet()


def test_a_stray_file_in_quarantine_is_left(local: World) -> None:
    bury(local)
    run = local.apply(local.plan(), removal=MOVE).run
    stray = f"repos/{local.repo.uid}/_reclaim/quarantine/{run}/branches/note.txt"
    local.storage.put(stray, b"do not lose this")
    local.undo(run)
    assert local.storage.get(stray) == b"do not lose this"
    assert not any("note.txt" in address for address in local.there())


def test_other_bytes_in_quarantine_are_neither_brought_back_nor_purged(local: World) -> None:
    bury(local)
    plan = local.plan()
    run = local.apply(plan, removal=MOVE).run
    changed = aside_of(local, run, min(local.candidates(plan)))
    size = len(local.storage.get(changed))
    local.clock.advance(hours=1)
    local.storage.put(changed, b"?" * size)
    with pytest.raises(Partial, match="it was left"):
        local.undo(run)
    with pytest.raises(Partial, match="could not be deleted"):
        local.purge(timedelta(0))
    assert local.storage.get(changed) == b"?" * size
    with pytest.raises(Refused, match="can no longer be undone"):
        local.undo(run)
    assert CommitState.QUARANTINED in commit_states(local.repo).values()


def test_an_apply_after_an_undo_has_begun_is_refused(local: World) -> None:
    bury(local)
    plan = local.plan()
    run = local.apply(plan, removal=MOVE).run
    dies_at(local, "before restore", lambda **how: local.undo(run, **how))
    with pytest.raises(PlanRefused, match="an undo of run"):
        local.apply(plan, removal=MOVE)


def test_a_run_that_stopped_has_nothing_to_purge(local: World) -> None:
    """It set nothing aside, so that its plan can still be applied, in any way."""
    bury(local)
    plan = local.plan()

    def away(step: str) -> None:
        if step == "before release":
            raise Refused("not now")

    with pytest.raises(Refused, match="not now"):
        local.apply(plan, removal=MOVE, store=stepped(local.store(), away))
    assert run_of(local, plan).phase == Phase.STOPPED
    assert local.purge(timedelta(0)) is None
    local.apply(plan, removal=DELETE)
    local.quiet()


def test_a_run_that_stopped_the_second_time_is_still_in_quarantine(local: World) -> None:
    past = bury(local)
    plan = local.plan()
    dies_at(local, "before set_aside", lambda **how: local.apply(plan, removal=MOVE, **how))

    def away(step: str) -> None:
        if step == "before release":
            raise Refused("not now")

    with pytest.raises(Refused, match="not now"):
        local.apply(plan, removal=MOVE, store=stepped(local.store(), away))
    aside = run_of(local, plan).quarantine
    assert aside is not None
    assert aside.removal == "moved"
    with pytest.raises(PlanRefused):
        local.apply(plan, removal=DELETE)
    assert local.undo(plan.document.run).snapshots == 2
    check_back(local, past)


def test_a_window_is_not_shortened_by_another_apply(local: World) -> None:
    bury(local)
    plan = local.plan()
    first = local.apply(plan, removal=MoveToQuarantine(timedelta(days=14)))
    assert local.apply(plan, removal=MoveToQuarantine(timedelta(days=7))).until == first.until


def test_the_journal_stays_as_long_as_the_window(local: World) -> None:
    past = bury(local)
    run = local.apply(local.plan(), removal=MoveToQuarantine(timedelta(days=90))).run
    local.clock.advance(days=40)
    local.apply(local.plan(allowed_fraction=1.0))
    assert any(f"/runs/{run}/" in one.address for one in local.storage.list())
    assert local.undo(run).snapshots == 2
    check_back(local, past)


@pytest.mark.parametrize("order", ["older first", "newer first"])
def test_two_runs_that_overlap_come_back_in_any_order(local: World, order: str) -> None:
    world, past = local, bury(local)
    first = world.apply(world.plan(), removal=MOVE).run
    with world.opened() as catalog:
        main = catalog.repository("sales").branch("main")
        for path in ("a", "b/1", "b/2", "c"):
            main.put(path, b"new")
        main.commit("new")
        for name in ("work", "clean"):
            catalog.repository("sales").delete_branch(name)
    world.age()
    policy = Policy(Rules(keep_last=1))
    second = world.apply(world.plan(policy, allowed_fraction=1.0), removal=MOVE).run
    for run in (first, second) if order == "older first" else (second, first):
        assert world.undo(run).left == ()
    check_back(world, past)
    assert {run.phase for run in world.repo.runs()} == {Phase.UNDONE}


def test_death_between_what_is_intended_and_the_first_move(local: World) -> None:
    """``dies`` goes through every write: some of them are the notes of what is intended."""
    past = bury(local)
    plan = local.plan()
    fatal = 1
    while dies(local, lambda world, **how: world.apply(plan, removal=MOVE, **how), fatal):
        local.clock.advance(minutes=12)
        fatal += 1
        if fatal % 3 == 0 and local.aside():
            local.apply(local.plan(allowed_fraction=1.0), removal=DELETE)
            local.check()
    local.clock.advance(minutes=12)
    assert local.undo(plan.document.run).snapshots == 2
    check_back(local, past)
