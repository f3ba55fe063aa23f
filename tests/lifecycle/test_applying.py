"""Applying plans of lifecycle rules on the plain engine: what goes, what stays, who is told."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import timedelta

import pytest

from reclaim.catalog import Repository
from reclaim.catalog.database.schema import ClaimState, claimed_addresses, claims
from reclaim.errors import Conflict, Gone, OutOfTime, Partial, PlanRefused, ReclaimError, Refused
from reclaim.run.lifecycle.rules import find_runs
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.run_record import Phase
from tests.catalog import raw
from tests.collect.helpers.dying import Frozen, dies
from tests.collect.helpers.world import At, World, stepped
from tests.lifecycle.logs import LOGS, OLD, missing, planned, week
from tests.lifecycle.ruled import plan_rules, section, set_rules
from tests.support.dying import again
from tests.support.soak import SOAK

pytestmark = pytest.mark.repeats(first=4)

MOVE = MoveToQuarantine()


def claim_states(world: World) -> dict[str, str]:
    return {row.run_id: row.state for row in raw.rows(world.repo, claims)}


def test_what_a_rule_took_is_gone_for_readers_and_nothing_else(world: World) -> None:
    plan = planned(world)
    run = plan.document.run
    before = world.there()
    done = world.apply(plan)
    assert missing(world) == OLD
    assert before - world.there() == set(world.candidates(plan))
    assert done.summary() | {"objects": 5, "dropped": 0, "failed": 0} == done.summary()
    repo = world.other()
    with pytest.raises(Gone) as gone:
        repo.branch("main").get("logs/0")
    assert gone.value.details == {"run": run, "rule": "lifecycle rule logs"}
    assert repo.branch("main").get("logs/6") == b"log 6"
    assert repo.branch("main").get("data/0") == b"data 0"
    [history] = find_runs(world.store())
    assert (history.run.phase, history.rules, history.held) == (Phase.DONE, ("logs",), 0)
    today = section(plan).today.isoformat()
    assert history.today == today
    stats = world.storage.get(f"repos/{repo.uid}/_reclaim/lifecycle/stats/{today}.csv").decode()
    [row] = csv.DictReader(io.StringIO(stats))
    assert (row["run_id"], row["deleted"], row["state"]) == (run, "5", "done")


def test_applied_again_it_takes_and_counts_nothing_twice(local: World) -> None:
    plan = planned(local)
    first = local.apply(plan).summary()
    assert local.apply(plan).summary() == first
    assert len(find_runs(local.store())) == 1


# References that are made meanwhile

OLDEST = "main~6"


def copy_and_commit(repo: Repository) -> None:
    repo.branch("main").copy("logs/0", "kept")
    repo.branch("main").commit("kept")


def move(repo: Repository) -> None:
    repo.branch("main").move("logs/0", "kept")


def merge(repo: Repository) -> None:
    repo.branch("side").merge("main")


def lease(repo: Repository) -> None:
    repo.take_lease(OLDEST, holder="reader", length=timedelta(hours=2))


HOLD: dict[str, tuple[Callable[[Repository], object], set[str]]] = {
    "a tag": (lambda repo: repo.create_tag("v1", OLDEST), {"logs/0"}),
    "an archive": (lambda repo: repo.create_branch("archive", "main~5"), {"logs/0", "logs/1"}),
    "a lease": (lease, {"logs/0"}),
    "a reset": (lambda repo: repo.branch("spare").reset_to("main~5"), {"logs/0", "logs/1"}),
    "a merge": (merge, OLD),
    "a copy": (lambda repo: repo.branch("main").copy("logs/0", "kept"), {"logs/0"}),
    "a copy and a commit": (copy_and_commit, {"logs/0"}),
    "a move": (move, {"logs/0"}),
}
POINTS = {
    "after the plan": ("before begin", 1),
    "before the claims": ("before claim", 1),
    "between claims and close": ("after claim", 1),
    "before the read": ("before observe", 2),
    "after the read": ("after observe", 2),
    "before the promotion": ("before promote_claims", 1),
}
CLAIMED = {"between claims and close", "before the read", "after the read", "before the promotion"}
BY_ADDRESS = {"a copy", "a copy and a commit", "a move"}
RULES = {
    "logs": {
        "prefix": "logs/",
        "days": 3,
        "branch_days": {"archive": 3000, "spare": 3000, "side": 3000},
    }
}


MATRIX = [
    (name, point)
    for name in HOLD
    for point in POINTS
    # Each at both ends of what can happen, one of each kind at every step between.
    if SOAK or name in ("a tag", "a copy") or point in ("after the plan", "before the promotion")
]


@pytest.mark.parametrize(("name", "point"), MATRIX)
def test_nothing_goes_that_something_came_to_hold(local: World, name: str, point: str) -> None:
    plan = planned(local, RULES)
    hold, held = HOLD[name]
    other = local.other()
    errors: list[ReclaimError] = []

    def act() -> None:
        try:
            hold(other)
        except Conflict as error:
            errors.append(error)

    point_name, nth = POINTS[point]
    at = At(point_name, act, nth=nth)
    local.apply(plan, store=stepped(local.store(), at), step=at)
    assert at.done
    if name in BY_ADDRESS and point in CLAIMED:
        # Who names an address that is claimed is told by which run, and may try again.
        assert plan.document.run in str(errors[0])
        assert missing(local) == OLD
        with pytest.raises(Gone):
            hold(other)
        return
    assert not errors
    assert missing(local) == OLD - held - ({"logs/0"} if name == "a move" else set())
    assert not missing(local) & held


@pytest.mark.parametrize("name", HOLD)
def test_after_the_promotion_it_is_too_late(local: World, name: str) -> None:
    plan = planned(local, RULES)
    other = local.other()
    errors: list[ReclaimError] = []

    def act() -> None:
        try:
            HOLD[name][0](other)
        except Gone as error:
            errors.append(error)

    at = At("after promote_claims", act)
    local.apply(plan, store=stepped(local.store(), at), step=at)
    assert bool(errors) == (name in BY_ADDRESS)
    assert missing(local) == OLD


def test_a_busy_branch_does_not_empty_a_plan(local: World) -> None:
    plan = planned(local)
    other = local.other()
    commits = iter(range(100))

    def work(step: str) -> None:
        # One commit between plan and apply, and one in each of the first rounds of confirming.
        number = next(commits) if step in ("before begin", "before promote_claims") else 99
        if number < 4:
            other.branch("main").put(f"new/{number}", b"new")
            other.branch("main").commit(f"busy {number}")

    local.apply(plan, store=stepped(local.store(), work), step=work)
    assert missing(local) == OLD


def test_a_history_that_never_rests_is_given_up_with_nothing_deleted(local: World) -> None:
    plan = planned(local)
    other = local.other()

    def work(step: str) -> None:
        if step == "before promote_claims":
            other.branch("main").commit("busy", allow_empty=True)

    with pytest.raises(OutOfTime, match="faster"):
        local.apply(plan, store=stepped(local.store(), work), step=work)
    assert missing(local) == set()
    assert claim_states(local) == {}
    other.branch("main").copy("logs/0", "kept")


@pytest.mark.parametrize("late", [False, True])
def test_rules_that_were_changed_since_refuse_the_plan(local: World, late: bool) -> None:
    plan = planned(local)

    def change() -> None:
        set_rules(local, {"logs": {"prefix": "logs/", "days": 3, "enabled": False}})

    at = At("before promote_claims" if late else "before begin", change)
    with pytest.raises(PlanRefused, match="rules"):
        local.apply(plan, store=stepped(local.store(), at), step=at)
    assert missing(local) == set()
    assert claim_states(local) == {}
    # The same rules, stored once more, are the same.
    set_rules(local, LOGS)
    local.apply(plan)
    assert missing(local) == OLD


def test_a_plan_that_nobody_vouches_for_is_refused(
    local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(local)
    store = local.store()
    monkeypatch.setattr(store, "recorded_plan", lambda _run: None)
    with pytest.raises(PlanRefused, match="no record of the plan"):
        local.apply(plan, store=store)
    assert missing(local) == set()


def test_what_is_left_out_stays_and_can_be_referred_to(local: World) -> None:
    plan = planned(local)
    done = local.apply(plan, exclude=["logs/0"])
    assert missing(local) == OLD - {"logs/0"}
    assert (done.summary()["excluded"], done.dropped) == (1, 0)
    local.other().branch("main").copy("logs/0", "kept")
    with pytest.raises(PlanRefused, match="--exclude"):
        local.apply(plan)
    again = plan_rules(local, LOGS)
    assert not local.candidates(again)


# Ends on the way


def test_it_dies_at_any_step_and_another_apply_finishes_it(local: World) -> None:
    plan = planned(local)
    frozen = Frozen(local)
    going = set(local.candidates(plan))
    deaths = 0
    for fatal in range(1, 400, 1 if SOAK else 5):
        frozen.thaw()
        died = dies(local, lambda world, **how: world.apply(plan, **how), fatal)
        # Nothing but what the rule matches is ever missing, and only once it is promoted.
        gone = going - local.there()
        if gone:
            assert claim_states(local) == {plan.document.run: ClaimState.PROMOTED}
        assert missing(local) <= OLD
        again(local, lambda world: world.apply(plan))
        assert missing(local) == OLD
        [run] = find_runs(local.store())
        assert run.run.counts.objects + run.run.counts.missing == 5
        assert len(raw.rows(local.repo, claimed_addresses)) == 5
        if not died:
            break
        deaths += 1
    assert deaths > 8


def test_of_a_run_that_died_before_it_promoted_nothing_is_left(local: World) -> None:
    plan = planned(local)

    class Reached(BaseException):
        pass

    def die() -> None:
        raise Reached

    at = At("before promote_claims", die)
    with pytest.raises(Reached):
        local.apply(plan, store=stepped(local.store(), at), step=at)
    assert claim_states(local) == {}
    [run] = find_runs(local.store())
    assert run.run.phase == Phase.STOPPED
    local.other().branch("main").copy("logs/0", "kept")


def test_what_could_not_be_deleted_is_tried_again(
    local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reclaim.errors import StorageDenied
    from reclaim.storage import ObjectStorage

    plan = planned(local)
    stubborn = min(local.candidates(plan))
    delete, page = ObjectStorage.delete, ObjectStorage.delete_page

    def refusing(self: ObjectStorage, address: str) -> None:
        if address == stubborn:
            raise StorageDenied("no")
        delete(self, address)

    def refusing_page(self: ObjectStorage, addresses: list[str]) -> None:
        if stubborn in addresses:
            raise StorageDenied("no")
        page(self, addresses)

    with monkeypatch.context() as patch:
        patch.setattr(ObjectStorage, "delete", refusing)
        patch.setattr(ObjectStorage, "delete_page", refusing_page)
        with pytest.raises(Partial):
            local.apply(plan)
    assert len(missing(local)) == 4
    done = local.apply(plan).summary()
    assert (done["objects"], done["failed"]) == (5, 0)
    assert missing(local) == OLD


# Quarantine


def test_an_undone_run_took_nothing(world: World) -> None:
    plan = planned(world)
    run = plan.document.run
    world.apply(plan, removal=MOVE)
    assert world.aside() == set(world.candidates(plan))
    with pytest.raises(Gone, match=run) as gone:
        world.other().branch("main").get("logs/0")
    assert f"reclaim undo {run}" in (gone.value.hint or "")
    world.undo(run)
    assert missing(world) == set()
    assert claim_states(world) == {}
    assert not raw.rows(world.repo, claimed_addresses)
    main = world.other().branch("main")
    assert main.get("logs/0") == b"log 0"
    main.copy("logs/0", "kept")
    main.reset()
    [history] = find_runs(world.store())
    assert history.run.phase == Phase.UNDONE
    # Its addresses are carried on: the next run takes them.
    world.clock.advance(hours=1)
    later = plan_rules(world, LOGS)
    assert set(world.candidates(later)) >= set(world.candidates(plan))
    with pytest.raises(PlanRefused, match="undone"):
        world.apply(plan, removal=MOVE)


def test_an_undo_that_dies_is_finished_by_another(local: World) -> None:
    plan = planned(local)
    run = plan.document.run
    local.apply(plan, removal=MOVE)
    frozen = Frozen(local)
    for fatal in range(1, 300, 1 if SOAK else 11):
        frozen.thaw()
        died = dies(local, lambda world, **how: world.undo(run, **how), fatal)
        if find_runs(local.store())[0].run.phase != Phase.UNDONE:
            again(local, lambda world: world.undo(run))
        assert missing(local) == set()
        local.other().branch("main").copy("logs/0", "kept")
        if not died:
            return


def test_after_a_purge_it_is_gone_for_good(local: World) -> None:
    plan = planned(local)
    run = plan.document.run
    local.apply(plan, removal=MOVE)
    local.purge(run_id=run)
    assert local.aside() == set()
    with pytest.raises(Gone, match=run):
        local.other().branch("main").get("logs/0")
    with pytest.raises(Refused):
        local.undo(run)


def test_what_a_run_that_can_be_undone_needs_is_held(local: World) -> None:
    week(local)
    repo = local.other()
    work = repo.create_branch("work", "main~4")
    work.commit("only here", allow_empty=True)
    only = repo.commit("work").id
    repo.delete_branch("work")
    repo._workspace.database.close()
    local.age()
    collected = local.plan()
    local.apply(collected, removal=MOVE)
    plan = plan_rules(local, LOGS)
    local.apply(plan)
    # The dead commit comes back whole.
    local.undo(collected.document.run)
    shown = local.other().at(only)
    assert shown.get("logs/0") == b"log 0"
    assert {"logs/3", "logs/4"} <= missing(local)


def test_what_was_put_in_quarantine_since_the_plan_is_held(local: World) -> None:
    week(local)
    repo = local.other()
    repo.create_branch("work", "main~4").commit("only here", allow_empty=True)
    only = repo.commit("work").id
    repo.delete_branch("work")
    repo._workspace.database.close()
    local.age()
    plan = plan_rules(local, LOGS)
    collected = local.plan()
    local.apply(collected, removal=MOVE)
    local.apply(plan)
    local.undo(collected.document.run)
    assert local.other().at(only).get("logs/0") == b"log 0"


# Others that look at the store


def test_a_later_collection_and_its_undo_do_not_miss_what_expired(local: World) -> None:
    plan = planned(local)
    local.apply(plan)
    repo = local.other()
    repo.create_branch("work").commit("only here", allow_empty=True)
    only = repo.commit("work").id
    repo.delete_branch("work")
    repo._workspace.database.close()
    local.age()
    collected = local.plan()
    assert not set(local.candidates(collected)) & set(local.candidates(plan))
    local.apply(collected, removal=MOVE)
    undone = local.undo(collected.document.run)
    assert undone.snapshots == 1
    shown = local.other().at(only)
    assert shown.get("data/0") == b"data 0"
    with pytest.raises(Gone, match=plan.document.run):
        shown.get("logs/0")
    assert missing(local) == OLD


def test_a_doctor_does_not_call_it_corrupt(local: World) -> None:
    local.apply(planned(local))
    findings = {
        finding.check: finding
        for finding in local.store().findings(deep=True, advance=lambda _bytes: None)
    }
    assert findings["objects"].level == "ok"
    assert "5 more were deleted by lifecycle rules" in findings["objects"].sentence
    assert findings["bytes"].level == "ok"
    assert "5 more were deleted by lifecycle rules" in findings["bytes"].sentence


def test_the_reaper_neither_takes_nor_forgets_what_a_run_claimed(local: World) -> None:
    week(local)
    local.repo.change_settings(hard_delete=True)
    plan = plan_rules(local, LOGS)

    def reap() -> None:
        with local.opened() as catalog:
            catalog.reap()

    at = At("after claim", reap)
    local.apply(plan, store=stepped(local.store(), at), step=at)
    local.clock.advance(days=60)
    reap()
    assert missing(local) == OLD
    with pytest.raises(Gone, match=plan.document.run):
        local.other().branch("main").get("logs/0")
