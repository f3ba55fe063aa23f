"""``reclaim lifecycle run`` on the command line: what it says, and what it takes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from reclaim.errors import StorageDenied
from reclaim.policy.lifecycle import date_rules
from reclaim.run.lifecycle import planning
from reclaim.storage import ObjectStorage
from tests.cli.conftest import CommandLine

pytestmark = pytest.mark.usefixtures("plain")
NOW = ("--min-age", "0", "--unsafe-allow-fraction", "1")
RULES = {"logs": {"prefix": "logs/", "days": 2}}


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules are dated three days from now: here no time passes."""
    monkeypatch.setattr(
        planning, "date_rules", lambda policy, day: date_rules(policy, day + timedelta(days=3))
    )


@pytest.fixture
def logs(cli: CommandLine, later: None) -> CommandLine:
    for path in ("logs/a", "logs/b", "data/c"):
        cli.ok("put", "-", f"sales/main/{path}", stdin=path.encode())
    cli.ok("commit", "sales/main", "-m", "first")
    cli.ok("lifecycle", "set", "sales", stdin=json.dumps(RULES).encode())
    return cli


def test_a_plan_is_shown_and_applied_like_any_other(logs: CommandLine, tmp_path: Path) -> None:
    logs.ok("cp", "sales/main/logs/b", "sales/main/kept")
    logs.ok("commit", "sales/main", "-m", "second")
    out = str(tmp_path / "plan")
    made = logs.ok("lifecycle", "run", "sales", "--plan", "--out", out, *NOW, "--json").json
    assert (made["candidates"], made["lifecycle"]["mode"]) == (1, "full")
    assert made["lifecycle"]["held_count"] == 1
    shown = logs.ok("show", out).out
    assert "A full run of 1 lifecycle rule, as of " in shown
    assert "lifecycle rule logs" in shown
    held = logs.ok("show", out, "--held").out
    assert "kept on the branch main" in held
    assert len(logs.ok("show", out, "--held", "--json").json["held"]) == 1
    assert "deleted 1 object" in logs.ok("apply", out, "--yes").out


def test_a_run_takes_what_rules_match_and_the_next_one_starts_from_it(logs: CommandLine) -> None:
    done = logs.ok("lifecycle", "run", "sales", *NOW, "--json").json
    assert (done["mode"], done["objects"], done["held"]) == ("full", 2, 0)
    again = logs.ok("lifecycle", "run", "sales", *NOW, "--json").json
    assert (again["mode"], again["objects"], again["ranges_read"]) == ("incremental", 0, 0)
    full = logs.ok("lifecycle", "run", "sales", "--full", *NOW, "--json").json
    assert (full["mode"], full["objects"], full["gone"]) == ("full", 0, 2)
    assert "sales: deleted 0 objects" in logs.ok("lifecycle", "run", "sales", *NOW).out


def test_what_it_refuses(logs: CommandLine, later: None) -> None:
    much = ("lifecycle", "run", "sales", "--min-age", "0", "--max-objects", "1", "--json")
    assert logs(*much).error["kind"] == "too_much"
    logs.ok("lifecycle", "unset", "sales")
    assert logs("lifecycle", "run", "sales", "--json").error["kind"] == "not_found"
    assert logs("show", "nowhere", "--held", "--objects", "--json").code


def test_a_collection_and_rules_in_one_go(logs: CommandLine) -> None:
    logs.ok("put", "-", "sales/main/wrong", stdin=b"never committed")
    logs.ok("reset", "sales/main")
    (done,) = logs.ok("gc", "sales", "--lifecycle", *NOW, "--json").json["stores"]
    assert done["objects"] >= 1
    assert done["lifecycle"]["objects"] == 2
    line = logs.ok("gc", "--all", "--lifecycle", *NOW).out
    assert "; by lifecycle rules: deleted 0 objects" in line
    assert logs.ok("gc", "sales", *NOW, "--json").json["stores"][0]["lifecycle"] is None


def test_with_all_a_repository_without_an_enabled_rule_is_collected(logs: CommandLine) -> None:
    off = {"logs": {**RULES["logs"], "enabled": False}}
    logs.ok("lifecycle", "set", "sales", stdin=json.dumps(off).encode())
    assert logs("gc", "sales", "--lifecycle", *NOW, "--json").error["kind"] == "invalid_input"
    for path in ("wrong", "false"):
        logs.ok("put", "-", f"sales/main/{path}", stdin=b"never committed")
        logs.ok("reset", "sales/main")
    (done,) = logs.ok("gc", "--all", "--lifecycle", *NOW, "--json").json["stores"]
    assert (done["state"], done["objects"] >= 2, done["lifecycle"]) == ("done", True, None)
    assert "no lifecycle rule is enabled" in done["warnings"]
    assert logs.ok("gc", "--all", "--lifecycle", *NOW).out.endswith(
        "; no lifecycle rule is enabled\n"
    )


def test_a_run_that_was_cut_off_is_given_up(
    logs: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = ObjectStorage.delete

    def refusing(self: ObjectStorage, addresses: Sequence[str]) -> None:
        for address in addresses:
            if "/branches/" in address:
                raise StorageDenied("no")
            delete(self, address)

    with monkeypatch.context() as patch:
        patch.setattr(ObjectStorage, "delete_page", refusing)
        patch.setattr(ObjectStorage, "delete", lambda self, one: refusing(self, [one]))
        assert logs("lifecycle", "run", "sales", *NOW, "--json").error["kind"] == "partial"
    logs.ok("lifecycle", "set", "sales", stdin=b'{"logs": {"prefix": "logs/", "days": 300}}')
    refused = logs("lifecycle", "run", "sales", *NOW, "--json").error
    assert refused["kind"] == "refused"
    run = refused["hint"].rpartition("reclaim undo ")[2]
    logs.fails("gone", 9, "cp", "sales/main/logs/a", "sales/main/kept")
    told = logs.ok("undo", run).out
    assert "2 objects that it had not deleted can be used again, 0 objects are gone" in told
    logs.ok("cp", "sales/main/logs/a", "sales/main/kept")
