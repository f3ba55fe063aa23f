"""Claims of runs that nobody will finish: what is at home is of use again, the rest stays gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reclaim.catalog.database.schema import claimed_addresses
from reclaim.engine import pipelines
from reclaim.engine.answers import Swept
from reclaim.engine.base import Engine
from reclaim.engine.requests import SweepRequest
from reclaim.errors import Gone, Partial, PlanRefused, Refused, StorageDenied, TooMuch
from reclaim.ids import short
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.apply.limits import Limits
from reclaim.run.doctor.doctor import examine
from reclaim.run.lifecycle.rules import find_runs
from reclaim.run.lifecycle.unfinished import find_unfinished
from reclaim.run.plan import plan_file
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.run_record import Phase
from reclaim.storage import ObjectStorage
from reclaim.stores.findings import Finding
from tests.catalog import raw
from tests.collect.helpers.dying import Frozen, dies
from tests.collect.helpers.world import World, opening
from tests.lifecycle.logs import LOGS, OLD, missing, planned
from tests.lifecycle.ruled import set_rules
from tests.lifecycle.test_afterwards import collect_and_run, cut_off, run
from tests.support.dying import Died, again
from tests.support.soak import SOAK

MOVE = MoveToQuarantine()


def usable(world: World) -> set[str]:
    """The logs that can be referred to anew."""
    main = world.other().branch("main")
    found = set()
    for path in OLD:
        try:
            main.copy(path, f"kept/{path}")
        except Gone:
            continue
        found.add(path)
    main.reset()
    return found


def address_of(world: World, path: str) -> str:
    [entry] = [entry for entry in world.repo.branch("main").entries() if entry.path == path]
    return entry.address


def examined(world: World) -> list[Finding]:
    """What doctor finds."""
    return list(examine(world.opened(), world.clock))


def folder(world: World, run_id: str) -> str:
    return f"repos/{world.repo.uid}/_reclaim/runs/{run_id}"


# An undo that could not bring everything back, and a purge


def test_what_an_undo_brought_back_is_of_use_whatever_it_could_not(local: World) -> None:
    plan = planned(local)
    first = plan.document.run
    lost = address_of(local, "logs/0")
    local.apply(plan, removal=MOVE)
    prefix = f"repos/{local.repo.uid}/"
    local.storage.delete(f"{prefix}_reclaim/quarantine/{first}/{lost.removeprefix(prefix)}")
    # Something else in its place is not what was there.
    local.storage.put(lost, b"another")
    with pytest.raises(Partial):
        local.undo(first)
    assert missing(local) == set()
    assert usable(local) == OLD - {"logs/0"}
    local.storage.delete(lost)
    local.purge(run_id=first)
    assert usable(local) == OLD - {"logs/0"}
    with pytest.raises(Gone, match=first):
        local.other().branch("main").get("logs/0")
    # And rules take it again.
    local.clock.advance(hours=1)
    set_rules(local, LOGS)
    run(local)
    assert missing(local) == OLD


def test_a_purge_of_a_run_that_was_cut_off_releases_what_is_at_home(local: World) -> None:
    first = cut_off(local, MOVE)
    local.purge(run_id=first)
    assert usable(local) == OLD
    run(local)
    assert missing(local) == OLD
    assert local.aside() == set()


def test_a_task_that_wakes_up_after_a_purge_puts_back_what_it_moves(
    local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, late = cut_off_with_a_late_task(local, monkeypatch, MOVE)
    local.purge(run_id=first)
    move = ObjectStorage.move

    def slow(self: ObjectStorage, *args: Any, **kwargs: Any) -> None:
        move(self, *args, **kwargs)
        local.clock.advance(hours=1)

    monkeypatch.setattr(ObjectStorage, "move", slow)
    late()
    assert missing(local) == set()


# An undo of a run that deletes for good


def test_a_run_that_was_cut_off_can_be_given_up(local: World) -> None:
    first = cut_off(local)
    local.storage.delete(address_of(local, "logs/0"))
    undone = local.undo(first)
    assert (undone.released, undone.gone) == (4, 1)
    assert usable(local) == OLD - {"logs/0"}
    with pytest.raises(Gone, match=first):
        local.other().branch("main").get("logs/0")
    [history] = find_runs(local.store())
    assert history.run.phase == Phase.UNDONE
    assert len(raw.rows(local.repo, claimed_addresses)) == 1
    with pytest.raises(PlanRefused, match="undone"):
        refinish(local, first)
    set_rules(local, LOGS)
    run(local)
    assert missing(local) == OLD


def refinish(world: World, run_id: str) -> None:
    """Apply the plan of a run again."""
    opener = opening(world.storage)
    found = world.store().find_run(run_id)
    assert found is not None
    place, document = plan_file.find(opener(found.place), found.place)
    apply_plan(world.store(), world.engine(), place, planned=document, opener=opener)


def test_one_whose_plan_is_lost_can_be_given_up(local: World) -> None:
    first = cut_off(local)
    for stored in list(local.storage.list(folder(local, first))):
        local.storage.delete(stored.address)
    assert local.undo(first).released == 5
    assert usable(local) == OLD


def test_what_could_not_be_asked_for_stays_claimed(
    local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = cut_off(local)
    hidden = address_of(local, "logs/0")
    head = ObjectStorage.head

    def refusing(self: ObjectStorage, address: str) -> object:
        if address == hidden:
            raise StorageDenied("no")
        return head(self, address)

    with monkeypatch.context() as patch:
        patch.setattr(ObjectStorage, "head", refusing)
        with pytest.raises(Partial) as told:
            local.undo(first)
    assert told.value.details["released"] == 4
    assert usable(local) == OLD - {"logs/0"}
    # From the first undo on nobody finishes it.
    assert not list(find_unfinished(local.store()))
    with pytest.raises(PlanRefused, match="an undo of run"):
        refinish(local, first)
    assert local.undo(first).released == 5
    assert usable(local) == OLD


def test_an_undo_that_dies_is_finished_by_another(local: World) -> None:
    first = cut_off(local)
    local.storage.delete(address_of(local, "logs/0"))
    frozen = Frozen(local)
    for fatal in range(1, 300, 1 if SOAK else 5):
        frozen.thaw()
        died = dies(local, lambda world, **how: world.undo(first, **how), fatal)
        if find_runs(local.store())[0].run.phase != Phase.UNDONE:
            again(local, lambda world: world.undo(first))
        assert missing(local) == {"logs/0"}
        assert usable(local) == OLD - {"logs/0"}
        given_up = find_runs(local.store())[0].run.given_up
        assert given_up is not None
        assert (given_up.released, given_up.gone) == (4, 1)
        if not died:
            return


def cut_off_with_a_late_task(
    world: World, monkeypatch: pytest.MonkeyPatch, removal: MoveToQuarantine | None = None
) -> tuple[str, Callable[[], Swept]]:
    """A run that is cut off with a task on its way, and what that task does when it wakes up."""
    plan = planned(world)
    requests: list[SweepRequest] = []
    sweep = pipelines.sweep

    def stopping(_engine: Engine, request: SweepRequest) -> Swept:
        requests.append(request)
        raise Died

    how: dict[str, Any] = {} if removal is None else {"removal": removal}
    with monkeypatch.context() as patch:
        patch.setattr(pipelines, "sweep", stopping)
        with pytest.raises(Died):
            world.apply(plan, **how)
    world.clock.advance(minutes=17)
    # By its own clock it is in time.
    return plan.document.run, lambda: sweep(world.engine(), requests[0])


def test_a_task_that_wakes_up_after_an_undo_deletes_nothing(
    local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, late = cut_off_with_a_late_task(local, monkeypatch)
    assert local.undo(first).released == 5
    assert not late().parts
    assert missing(local) == set()


# The next run


def test_rules_that_changed_since_are_not_overruled_by_a_run_that_was_cut_off(
    local: World,
) -> None:
    first = cut_off(local)
    set_rules(local, {"logs": {"prefix": "logs/", "days": 3000}})
    with pytest.raises(Refused, match=first) as told:
        run(local)
    assert f"reclaim undo {first}" in (told.value.hint or "")
    assert "reclaim apply " in (told.value.hint or "")
    assert missing(local) == set()
    local.undo(first)
    run(local)
    assert missing(local) == set()


@pytest.mark.parametrize("together", [False, True], ids=["a run", "after a collection"])
def test_limits_hold_for_a_run_that_was_cut_off(local: World, together: bool) -> None:
    first = cut_off(local)
    again = collect_and_run if together else run
    with pytest.raises(TooMuch, match=first) as told:
        again(local, limits=Limits(4))
    assert f"reclaim undo {first}" in (told.value.hint or "")
    assert missing(local) == set()
    again(local, limits=Limits(5))
    assert missing(local) == OLD


@pytest.mark.parametrize(
    ("together", "file", "how"),
    [
        (False, "objects/", "gone"),
        (False, "snapshots.parquet", "damaged"),
        (True, "containers/", "gone"),
    ],
    ids=["objects", "snapshots", "containers"],
)
def test_a_damaged_plan_of_a_run_that_was_cut_off_stops_no_later_run(
    local: World, caplog: pytest.LogCaptureFixture, together: bool, file: str, how: str
) -> None:
    first = cut_off(local)
    for stored in list(local.storage.list(folder(local, first))):
        if stored.address.startswith(f"{folder(local, first)}/{file}"):
            if how == "gone":
                local.storage.delete(stored.address)
            else:
                local.storage.put(stored.address, b"PAR1 nonsense PAR1")
    local.clock.advance(days=1)
    (collect_and_run if together else run)(local)
    # Of the objects that the other run has claimed nothing is deleted.
    assert missing(local) == {"logs/5"}
    assert f"lifecycle run {first} cannot be finished" in caplog.text
    assert f"reclaim undo {first}" in caplog.text
    [doubt] = [one for one in examined(local) if one.check == "runs"]
    assert f"run {short(first)} is unfinished" in doubt.sentence
    assert f"reclaim undo {short(first)}" in doubt.hint
    with pytest.raises(Partial) as partial:
        refinish(local, first)
    assert f"reclaim undo {first}" in (partial.value.hint or "")
    assert local.undo(first).released == 5
    assert [one.level for one in examined(local) if one.check == "runs"] == ["ok"]
    run(local)
    assert missing(local) == OLD | {"logs/5"}


def test_an_object_that_cannot_be_deleted_stops_no_later_run(
    local: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plan = planned(local)
    stubborn = address_of(local, "logs/0")
    page = ObjectStorage.delete_page

    def refusing(self: ObjectStorage, addresses: list[str]) -> None:
        if stubborn in addresses:
            raise StorageDenied("held")
        page(self, addresses)

    monkeypatch.setattr(ObjectStorage, "delete", lambda self, one: refusing(self, [one]))
    monkeypatch.setattr(ObjectStorage, "delete_page", refusing)
    with pytest.raises(Partial):
        local.apply(plan)
    local.clock.advance(days=1)
    run(local, limits=Limits(2))
    assert missing(local) == OLD - {"logs/0"} | {"logs/5"}
    assert f"lifecycle run {plan.document.run} is not finished" in caplog.text
    # What cannot be deleted is not gone: somebody may want to use it again.
    undone = local.undo(plan.document.run)
    assert (undone.released, undone.gone) == (1, 4)
    assert "logs/0" in usable(local)


def test_the_plan_of_a_run_that_was_cut_off_is_not_collected(local: World) -> None:
    first = cut_off(local)
    for _ in range(2):
        local.clock.advance(days=40)
        local.apply(local.plan(allowed_fraction=1.0))
    run(local)
    assert missing(local) >= OLD
    assert find_runs(local.store())[-1].run.id == first
    # Once it is finished, nobody needs it.
    local.clock.advance(days=40)
    local.apply(local.plan(allowed_fraction=1.0))
    assert not list(local.storage.list(folder(local, first)))
