"""A plan for a store that is files: what is believed of it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from reclaim.engine.tasks.deleting import JOURNAL
from reclaim.engine.tasks.judging import CANDIDATES, count_kinds
from reclaim.engine.tasks.parts import Place, read_part, write_part
from reclaim.errors import PlanRefused
from reclaim.run.plan import plan_file
from reclaim.run.plan.plan_document import File, Group, PlanDocument
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.sweep.removal import DELETE
from tests.terminus.world import World, bury


def forge(world: World, plan: WrittenPlan) -> PlanDocument:
    """Make a plan list all layers that are live, with all hashes and sums right."""
    [file, *_] = plan.document.files
    row = read_part(world.storage, file.part).to_pylist()[0]
    addresses = [
        f"store/{path.relative_to(world.folder)}"
        for path in sorted(world.folder.glob("[0-9a-f]" * 3 + "/*"))
        if path.name.partition(".")[0] in world.live()
    ]
    rows = [row | {"address": address} for address in addresses]
    table = pa.Table.from_pylist(rows, schema=CANDIDATES)
    part = write_part(world.storage, file.address, table)
    going = [
        Group(objects=objects, bytes=size, kind=kind, reason="")
        for kind, (objects, size) in count_kinds(table).items()
    ]
    changed = {
        "files": [File.of(part)],
        "going": going,
        "candidates": len(rows),
        "candidate_bytes": sum(group.bytes for group in going),
    }
    return plan_file.write(world.storage, plan.place, plan.document.model_copy(update=changed))


@pytest.mark.parametrize("kept", [True, False], ids=["recorded", "not recorded"])
def test_live_layers_in_a_forged_plan(world: World, kept: bool) -> None:
    past = bury(world)
    plan = world.plan()
    forged = forge(world, plan)
    assert forged.candidates
    noted = world.folder / ".reclaim" / "plans" / plan.document.run
    assert noted.read_text() == plan.document.digest
    if kept:
        with pytest.raises(PlanRefused, match="recorded"):
            world.apply(plan, removal=DELETE)
    else:
        noted.unlink()
        done = world.apply(plan, removal=DELETE)
        assert (done.summary()["objects"], done.compared) == (0, True)
    assert past.live <= world.there()
    world.check()


def test_a_plan_without_a_record_takes_what_a_new_one_takes_too(world: World) -> None:
    past = bury(world)
    plan = world.plan()
    (world.folder / ".reclaim" / "plans" / plan.document.run).unlink()
    done = world.apply(plan, removal=DELETE)
    assert done.compared
    assert world.there() == past.live
    world.check()


def test_old_digests_are_forgotten(world: World) -> None:
    bury(world)
    folder = world.folder / ".reclaim" / "plans"
    first = world.plan().document.run
    world.clock.advance(days=32)
    second = world.plan().document.run
    assert {path.name for path in folder.iterdir()} == {second} != {first}


def test_a_forged_journal_of_a_plan_elsewhere(world: World) -> None:
    """The record beside the store does not know it, so that it counts for nothing."""
    bury(world)
    before = world.there()
    plan = world.plan(place=Place(world.storage.url, "elsewhere/"))
    rows = [
        dict.fromkeys(JOURNAL.names, "1")
        | {name: row[name] for name in ("address", "size", "kind")}
        | {"outcome": "quarantined"}
        for file in plan.document.files
        for row in read_part(world.storage, file.part).to_pylist()
    ]
    table = pa.Table.from_pylist(rows, schema=JOURNAL)
    part = write_part(world.storage, plan.place.at("apply/0/forged.parquet"), table)
    named = {"address": part.address, "rows": part.rows, "sha256": part.sha256}
    listed = [named | {"kind": "layer", "outcome": [["quarantined", len(rows), 1]]}]
    world.storage.put(plan.place.at("apply/0/journal.json"), json.dumps(listed).encode())
    applied = world.apply(plan)
    assert applied.summary()["objects"] == len(rows)
    assert world.there() != before
    record = world.store().find_run(plan.document.run)
    assert record is not None
    assert all(len(hashes) == 1 for hashes in (record.lists or {}).values())
    world.undo(plan.document.run)
    assert world.there() == before
