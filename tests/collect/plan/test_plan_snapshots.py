"""The file with snapshots is enough to draw the history of a plan, and to explain it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from reclaim.engine.tasks.parts import read_part
from reclaim.errors import UnknownVersion
from reclaim.policy import Policy, Rules
from reclaim.run.plan import plan_document, plan_file, plan_snapshots
from reclaim.run.plan.decide import STAYS_BEHIND, UNREACHED
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.plan.snapshot_reasons import NEEDED_BY_LEASE, SnapshotVerdict
from reclaim.run.sweep.removal import MoveToQuarantine, find_record
from tests.collect.helpers.refusing import refused
from tests.collect.helpers.world import NAME, World, bury, opening


def rows_of(world: World, plan: WrittenPlan) -> dict[str, dict[str, Any]]:
    rows = read_part(world.storage, plan.document.snapshots.part)
    assert rows.schema.equals(plan_snapshots.SNAPSHOTS)
    return {row["id"]: row for row in rows.to_pylist()}


def test_every_commit_is_drawn(local: World) -> None:
    past = bury(local)
    plan = local.plan()
    rows = rows_of(local, plan)
    repo = local.other()
    assert len(rows) == plan.document.live + plan.document.dead
    keep = rows[past.keep]
    assert (keep["message"], keep["verdict"]) == ("keep", SnapshotVerdict.LIVE)
    assert keep["written_at"] == repo.commit(past.keep).written_at
    assert keep["parents"] == list(repo.commit(past.keep).parents)
    assert keep["new_parents"] is None
    named = [(ref["kind"], ref["name"], ref["deleted"]) for ref in keep["refs"]]
    assert sorted(named) == [("branch", name, False) for name in ("clean", "main", "work")]
    second = rows[past.second]
    assert (second["message"], second["verdict"]) == ("second", SnapshotVerdict.UNREACHABLE)
    assert (second["parents"], second["refs"]) == ([past.first], None)
    assert second["reasons"] == [UNREACHED]


def grown(world: World) -> list[str]:
    """Six commits on main; a tag and a lease on some of them."""
    catalog = world.opened()
    repo = catalog.repository(NAME)
    main = repo.branch("main")
    ids = []
    for number in range(6):
        world.clock.advance(hours=1)
        main.put("a", f"{number}".encode())
        ids.append(main.commit(f"number {number}" + "!" * 2_000 * (number == 5)).id)
    repo.create_tag("old", ids[1])
    catalog.close()
    return ids


def test_what_a_policy_does(local: World) -> None:
    ids = grown(local)
    local.age()
    plan = local.plan(Policy(default=Rules(keep_last=2)))
    rows = rows_of(local, plan)
    verdicts = [rows[one]["verdict"] for one in ids]
    assert verdicts == ["live", "live", "expired", "expired", "live", "live"]
    assert rows[ids[5]]["reasons"] == ["branch main: keep_last 2 (1st of 2)"]
    assert rows[ids[3]]["reasons"] == ["not among the last 2 on branch main"]
    assert rows[ids[1]]["reasons"][0].startswith("tag old: keep_last 2")
    # The edited one has its parents from before and after.
    assert rows[ids[4]]["parents"] == [ids[3]]
    assert rows[ids[4]]["new_parents"] == [ids[1]]
    assert len(rows[ids[5]]["message"]) == 1_000


def test_who_stays_though_no_rule_keeps_it(local: World) -> None:
    ids = grown(local)
    catalog = local.opened()
    lease = catalog.repository(NAME).take_lease(ids[3], holder="a reader", length=timedelta(days=9))
    catalog.close()
    local.age()
    rules = Policy(default=Rules(older_than=local.clock.now()))
    plan = local.plan(rules)
    rows = rows_of(local, plan)
    assert {row["verdict"] for row in rows.values()} == {"live"}
    assert rows[ids[3]]["reasons"][0] == f"in use: lease {lease.id} of a reader"
    assert rows[ids[2]]["reasons"][0] == NEEDED_BY_LEASE.format(noun="commit")
    assert rows[ids[4]]["reasons"][0] == STAYS_BEHIND.format(noun="commit")
    assert "written before" in rows[ids[4]]["reasons"][1]


def test_a_ref_that_goes_is_marked(local: World) -> None:
    ids = grown(local)
    local.age()
    rules = Policy(default=Rules(older_than=local.clock.now()))
    plan = local.plan(rules, delete_expired_tags=True)
    [ref] = rows_of(local, plan)[ids[1]]["refs"]
    assert ref == {"kind": "tag", "name": "old", "deleted": True}
    assert plan.document.deleted_refs == ["old"]
    local.apply(plan)
    assert list(local.other().tags()) == []


def test_what_an_earlier_run_condemned(local: World) -> None:
    past = bury(local)
    local.apply(local.plan())
    rows = rows_of(local, local.plan())
    assert past.keep in rows
    assert past.second not in rows


def as_format_one(world: World, plan: WrittenPlan) -> None:
    """Make a plan one of the format that came before."""
    address = plan.place.at(plan_file.FILE)
    body = json.loads(world.storage.get(address))
    body["format"] = 1
    body["digest"] = plan_document.hash_of(body)
    world.storage.put(address, json.dumps(body).encode())


def test_a_plan_of_format_one_is_refused(local: World) -> None:
    bury(local)
    plan = local.plan()
    as_format_one(local, plan)
    with refused(local, UnknownVersion, 6):
        local.apply(plan)
    with pytest.raises(UnknownVersion, match="format 1") as caught:
        plan_file.read(local.storage, plan.place)
    assert "reclaim plan" in (caught.value.hint or "")


def test_a_run_of_an_older_plan_can_be_undone(local: World) -> None:
    past = bury(local)
    before = local.there()
    plan = local.plan()
    local.apply(plan, removal=MoveToQuarantine())
    as_format_one(local, plan)
    record = find_record(local.store(), local.repo.runs()[0], opening(local.storage))
    assert record is not None
    assert record.journal.intended_rows() == plan.document.candidates
    # Another plan is made beside it, and what it promised comes back.
    local.plan()
    local.undo(plan.document.run)
    assert before <= local.there()
    assert local.other().commit(past.second).message == "second"
