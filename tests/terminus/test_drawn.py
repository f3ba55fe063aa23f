"""A plan for a store of layers can be drawn and explained from its file of snapshots alone."""

from __future__ import annotations

from reclaim.engine.tasks.parts import read_part
from reclaim.run.plan import plan_snapshots
from tests.terminus.world import World, bury


def test_every_layer_is_drawn(world: World) -> None:
    past = bury(world)
    plan = world.plan()
    rows = read_part(world.storage, plan.document.snapshots.part)
    assert rows.schema.equals(plan_snapshots.SNAPSHOTS)
    drawn = {row["id"]: row for row in rows.to_pylist()}
    assert drawn.keys() == past.live | past.dead
    assert {drawn[one]["verdict"] for one in past.live} == {"live"}
    assert {drawn[one]["verdict"] for one in past.dead} == {"unreachable"}
    first, second, tip = (drawn[one] for one in past.main)
    assert [one["parents"] for one in (first, second, tip)] == [[], [past.main[0]], [past.main[1]]]
    assert tip["refs"] == [{"kind": "label", "name": "main", "deleted": False}]
    assert tip["reasons"] == ["the label main"]
    assert second["reasons"] == [f"the parent of layer {past.main[2]}"]
    assert drawn[past.rollup]["reasons"] == [f"the rollup of layer {past.main[2]}"]
    assert {(row["written_at"], row["message"]) for row in drawn.values()} == {(None, None)}
    assert all(len(row["reasons"]) == 1 and row["reasons"][0] for row in drawn.values())
    decided = plan_snapshots.read(world.storage, plan.document.snapshots.part)
    assert decided.live == past.live
    assert decided.dead.keys() == past.dead
