"""What lifecycle runs leave in the storage: tables that people read, and checkpoints that go."""

from __future__ import annotations

import io
from datetime import date, timedelta

import pyarrow.parquet as pq
import pytest

from reclaim.stores.observation import Margins
from tests.collect.helpers.world import World
from tests.lifecycle.logs import LOGS, OLD, week
from tests.lifecycle.ruled import plan_rules, section


@pytest.fixture
def logs(local: World) -> World:
    return week(local)


def left(world: World, folder: str) -> list[str]:
    """The files in a folder of what lifecycle runs leave, the checkpoints among them."""
    inside = folder if folder.startswith("checkpoints/") else f"lifecycle/{folder}"
    prefix = f"repos/{world.repo.uid}/_reclaim/{inside}"
    return sorted(stored.address for stored in world.storage.list(prefix))


def table(world: World, folder: str) -> list[dict[str, object]]:
    return [
        row
        for address in left(world, folder)
        for row in pq.read_table(io.BytesIO(world.storage.get(address))).to_pylist()
    ]


def test_tables_of_a_run_are_published_when_it_is_done(logs: World) -> None:
    today = logs.clock.now().date()
    plan = plan_rules(logs, {**LOGS, "all": {"prefix": "x", "days": 9, "branch_days": {"b": 1}}})
    assert not left(logs, "policy")
    run = logs.apply(plan).run
    rows = [("logs", "logs/", "", 3), ("all", "x", "", 9), ("all", "x", "b", 1)]
    assert table(logs, "policy") == [
        {
            "run_id": run,
            "rule_id": rule,
            "prefix": prefix,
            "branch": branch,
            "date_to_be_deleted": today - timedelta(days=days),
        }
        for rule, prefix, branch, days in rows
    ]
    taken = table(logs, f"addresses/date={today}")
    assert {path for row in taken for path in row["paths"]} == OLD  # type: ignore[attr-defined]
    assert {(row["run_id"], *row["matched_rules"]) for row in taken} == {(run, "logs")}  # type: ignore[misc]
    assert {row["last_deleted"] for row in table(logs, "current_rules")} == {None}
    # All commits: nothing was deleted before.
    assert len(table(logs, "potential_commits")) == section(plan).commits.rows


def test_rules_of_the_next_run_stand_beside_what_was_deleted(logs: World) -> None:
    first = logs.clock.now().date()
    logs.apply(plan_rules(logs, LOGS))
    logs.clock.advance(days=1)
    plan = plan_rules(logs, LOGS)
    assert section(plan).mode == "incremental", section(plan).why
    logs.apply(plan)
    (row,) = table(logs, "current_rules")
    assert row["date_to_be_deleted"] == first + timedelta(days=1) - timedelta(days=3)
    assert row["last_deleted"] == first - timedelta(days=3)
    assert len(table(logs, "policy")) == 2
    # Commits of before the date that was deleted up to have nothing new.
    days = [row["written_at"].date() for row in table(logs, "potential_commits")]  # type: ignore[attr-defined]
    assert days
    assert min(days) > date.fromisoformat(str(row["last_deleted"]))


def test_old_checkpoints_are_collected_and_the_newest_is_not(logs: World) -> None:
    runs = []
    for _ in range(2):
        runs.append(logs.apply(plan_rules(logs, LOGS, full=True)).run)
        logs.clock.advance(days=3)
    logs.margins = Margins()
    logs.apply(logs.plan(allowed_fraction=1.0))
    assert not left(logs, f"checkpoints/{runs[0]}")
    assert left(logs, f"checkpoints/{runs[1]}")
    assert section(plan_rules(logs, LOGS)).mode == "incremental"


def test_an_undo_ends_a_checkpoint(logs: World) -> None:
    from reclaim.run.sweep.removal import MoveToQuarantine

    plan = plan_rules(logs, LOGS)
    run = logs.apply(plan, removal=MoveToQuarantine()).run
    logs.undo(run)
    again = plan_rules(logs, LOGS)
    assert section(again).mode == "full"
    assert logs.candidates(again) == logs.candidates(plan)


def test_a_damaged_checkpoint_makes_it_a_full_run(logs: World) -> None:
    run = logs.apply(plan_rules(logs, LOGS)).run
    logs.clock.advance(days=1)
    expected = logs.candidates(plan_rules(logs, LOGS, full=True))
    for address in left(logs, f"checkpoints/{run}"):
        data = logs.storage.get(address)
        logs.storage.put(address, data[:-1] + b"x")
        plan = plan_rules(logs, LOGS)
        assert logs.candidates(plan) == expected
        if section(plan).mode == "full":
            assert "damaged" in section(plan).why or "changed" in section(plan).why
        logs.storage.put(address, data)
