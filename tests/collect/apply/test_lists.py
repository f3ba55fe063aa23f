"""Lists in a plan's folder: which are believed, and what is done without the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest

from reclaim.engine.tasks.deleting import JOURNAL
from reclaim.engine.tasks.notes import RETURNED, Noted, write_note
from reclaim.engine.tasks.parts import Part, Place, read_part, write_part
from reclaim.errors import Partial, PlanRefused, Refused, StorageDenied
from reclaim.run.plan import plan_file
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.purge.purge import purge
from reclaim.run.sweep.removal import MoveToQuarantine, find_record
from reclaim.run.undo.undo_run import undo_run
from reclaim.storage import Storage
from reclaim.testing.faults import FaultyStorage
from tests.collect.helpers.forging import forget
from tests.collect.helpers.world import NAME, World, bury, opening
from tests.collect.quarantine.test_promises import aside_of, check_back, dies_at, run_of

MOVE = MoveToQuarantine()


MONTH = MoveToQuarantine(timedelta(days=30))


def elsewhere(world: World) -> Place:
    """A folder for a plan that others may write too."""
    return Place(world.storage.url, "elsewhere/plan/")


def parts_of(world: World, plan: WrittenPlan, folder: str) -> list[str]:
    """The Parquet files of a run's applies in folders of a name."""
    below = plan.place.at("apply")
    listed = [stored.address for stored in world.storage.list(below)]
    return sorted(one for one in listed if f"/{folder}/" in one and one.endswith(".parquet"))


def damage(world: World, address: str) -> None:
    data = bytearray(world.storage.get(address))
    data[len(data) // 2] ^= 0xFF
    world.storage.put(address, bytes(data))


def bury_next(world: World) -> None:
    """One more dead commit."""
    with world.opened() as catalog:
        branch = catalog.repository(NAME).create_branch("next", "main")
        branch.put("n", b"next")
        branch.commit("next")
        catalog.repository(NAME).delete_branch("next")
    world.age()


DAMAGES: dict[str, Callable[[World, str], None]] = {
    "missing": lambda world, address: world.storage.delete(address),
    "changed": damage,
}


def forge_journal(world: World, plan: WrittenPlan, folder: str) -> None:
    """A journal that says that all of a plan is set aside, and whose hashes are all right."""
    rows = [
        {
            "address": row["address"],
            "size": row["size"],
            "kind": row["kind"],
            "reason": "looks right",
            "outcome": "quarantined",
            "identity": "1",
        }
        for file in plan.document.files
        for row in read_part(world.storage, file.part).to_pylist()
    ]
    listed = []
    for kind in sorted({row["kind"] for row in rows}):
        own = [row for row in rows if row["kind"] == kind]
        table = pa.Table.from_pylist(own, schema=JOURNAL)
        part = write_part(world.storage, plan.place.at(f"apply/{folder}/{kind}.parquet"), table)
        counts = [["quarantined", len(own), sum(row["size"] for row in own)]]
        listed.append(
            {
                "kind": kind,
                "address": part.address,
                "rows": part.rows,
                "sha256": part.sha256,
                "outcome": counts,
            }
        )
    for name in ("journal.json", "intended.json"):
        world.storage.put(plan.place.at(f"apply/{folder}/{name}"), json.dumps(listed).encode())


def test_a_forged_journal_does_not_count(world: World) -> None:
    """Who can write the plan's folder says that all is set aside. The plan itself is untouched."""
    past = bury(world)
    plan = world.plan(place=elsewhere(world))
    forge_journal(world, plan, "0")
    before = world.there()
    applied = world.apply(plan, removal=MONTH)
    assert before - world.there() == world.aside() == set(world.candidates(plan))
    assert applied.summary()["objects"] == len(world.candidates(plan))
    world.clock.advance(hours=1)
    assert world.undo(plan.document.run).snapshots == 2
    check_back(world, past)


def test_a_journal_that_was_forged_after_the_first_apply(local: World) -> None:
    """It is in the folder of an apply that the record knows, under its name."""
    past = bury(local)
    plan = local.plan(place=elsewhere(local))
    dies_at(local, "before promote", lambda **how: local.apply(plan, removal=MONTH, **how))
    [own] = [
        stored.address.split("/")[-2]
        for stored in local.storage.list(plan.place.at("apply"))
        if stored.address.endswith("/intended.json")
    ]
    forge_journal(local, plan, own)
    local.apply(plan, removal=MONTH)
    assert local.aside() == set(local.candidates(plan))
    assert local.undo(plan.document.run).snapshots == 2
    check_back(local, past)


def test_a_forged_list_of_the_same_length(local: World) -> None:
    """An undo was cut off, and what it brought back is promised until it is finished."""
    past = bury(local)
    plan = local.plan(place=elsewhere(local))
    run = local.apply(plan, removal=MONTH).run
    dies_at(local, "before restore", lambda **how: local.undo(run, **how))
    for stored in list(local.storage.list(plan.place.at("apply"))):
        if stored.address.endswith("/intended.json"):
            listed = json.loads(local.storage.get(stored.address))
            forged = listed | {"files": [renamed(local.storage, row) for row in listed["files"]]}
            local.storage.put(stored.address, json.dumps(forged).encode())
    local.age()
    with pytest.raises(Refused, match="are incomplete") as refused:
        local.plan(allowed_fraction=1.0)
    assert "reclaim undo" in (refused.value.hint or "")
    local.undo(run)
    check_back(local, past)


def renamed(storage: Storage, row: dict[str, object]) -> dict[str, object]:
    """A row of a list whose file has as many other objects."""
    table = read_part(storage, Part(str(row["address"]), int(str(row["rows"])), str(row["sha256"])))
    names = [f"{address}x" for address in table.column("address").to_pylist()]
    at = table.schema.get_field_index("address")
    other = table.set_column(at, table.schema.field("address"), pa.array(names))
    part = write_part(storage, f"{row['address']}.new", other)
    return row | {"address": part.address, "sha256": part.sha256}


def test_a_forged_note_adds_no_object(local: World) -> None:
    bury(local)
    plan = local.plan()
    run = local.apply(plan, removal=MOVE).run
    stray = aside_of(local, run, f"repos/{local.repo.uid}/branches/main/p/stray")
    local.storage.put(stray, b"stray")
    home = f"repos/{local.repo.uid}/branches/main/p/stray"
    note = plan.place.at(f"undo/0/{RETURNED}/")
    write_note(local.storage, note, [Noted(home, 5, "quarantined", "")])
    local.undo(run)
    assert local.storage.get(stray) == b"stray"
    assert home not in local.there()


def test_lists_of_a_run_of_an_older_version(local: World) -> None:
    """Its record has no hashes; its lists count as they did, and are known from then on."""
    past = bury(local)
    plan = local.plan()
    local.apply(plan, removal=MOVE)
    run = run_of(local, plan)
    with local.store().lock(run.id) as held:
        held.finish(replace(run, lists=None))
    record = find_record(local.store(), run_of(local, plan), opening(local.storage))
    assert record is not None
    assert record.tells_all
    local.apply(plan, removal=MOVE)
    assert set(run.lists or ()) < set(run_of(local, plan).lists or ())
    assert local.undo(run.id).snapshots == 2
    check_back(local, past)


def test_an_apply_that_dies_at_its_journal_knows_the_waves_before(local: World) -> None:
    """What is recorded is recorded before it is written: one of the two is always known."""
    bury(local)
    plan = local.plan()
    journals: list[int] = []

    def dies(call: str, address: str) -> None:
        if call == "put" and address.endswith("/journal.json"):
            journals.append(1)
            if len(journals) == 2:
                raise StorageDenied(address)

    with pytest.raises(Partial):
        local.apply(plan, removal=MOVE, storage=FaultyStorage(local.storage, dies))
    record = find_record(local.store(), run_of(local, plan), opening(local.storage))
    assert record is not None
    assert record.journal.lost == ()
    assert len(record.journal.parts()) == 1


@pytest.mark.parametrize("then", ["undo", "purge"])
def test_a_plan_that_may_not_be_read_any_more(local: World, then: str) -> None:
    """The folder of its quarantine tells."""
    past = bury(local)
    plan = local.plan()
    run = local.apply(plan, removal=MOVE).run

    def denying(url: str) -> Storage:
        if url == str(plan.place):
            raise StorageDenied("the folder of the plan")
        return opening(local.storage)(url)

    if then == "undo":
        undo_run(local.store(), local.engine(), run, opener=denying)
        check_back(local, past)
    else:
        local.clock.advance(days=8)
        purged = purge(local.store(), local.engine(), opener=denying)
        assert purged is not None
        assert purged.runs == [run]
    assert not local.aside()


# Plans that carry the id of another run


def test_a_plan_with_the_id_of_a_finished_run(local: World) -> None:
    bury(local)
    run = local.apply(local.plan(), removal=MoveToQuarantine(timedelta(days=90))).run
    before = run_record(local, run)
    local.clock.advance(days=33)
    other = local.plan()
    plan_file.write(local.storage, other.place, other.document.model_copy(update={"run": run}))
    with pytest.raises(PlanRefused, match="whose plan is at"):
        local.apply(other, removal=MoveToQuarantine(timedelta(days=1)))
    assert run_record(local, run) == before


def test_another_plan_in_the_place_of_a_finished_run_s(local: World) -> None:
    """As above, but where the plan of that run was; the store has forgotten what that hashed to."""
    bury(local)
    plan = local.plan()
    run = local.apply(plan, removal=MoveToQuarantine(timedelta(days=90))).run
    before = run_record(local, run)
    forget(local)
    forged = plan.document.model_copy(update={"warnings": ["another"]})
    plan_file.write(local.storage, plan.place, forged)
    with pytest.raises(PlanRefused, match="not the plan of that run"):
        local.apply(plan, removal=MoveToQuarantine(timedelta(days=1)))
    assert run_record(local, run) == before


def test_a_plan_that_nobody_vouches_for_goes_on_with_its_own_run(local: World) -> None:
    past = bury(local)
    plan = local.plan()
    forget(local)
    dies_at(local, "before set_aside", lambda **how: local.apply(plan, removal=MOVE, **how))
    local.apply(plan, removal=MOVE)
    assert local.undo(plan.document.run).snapshots == 2
    check_back(local, past)


def run_record(world: World, run: str) -> tuple[str, object]:
    found = world.store().find_run(run)
    assert found is not None
    return found.phase, found
