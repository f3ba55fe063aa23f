"""``--lifecycle`` on the command line: what it says, and what it takes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

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
    made = logs.ok("plan", "sales", "--lifecycle", "--out", out, *NOW, "--json").json
    assert (made["candidates"], made["lifecycle"]["mode"]) == (1, "full")
    assert made["lifecycle"]["held_count"] == 1
    shown = logs.ok("show", out).out
    assert "A full run of 1 lifecycle rule, as of " in shown
    assert "lifecycle rule logs" in shown
    held = logs.ok("show", out, "--held").out
    assert "kept on the branch main" in held
    assert len(logs.ok("show", out, "--held", "--json").json["held"]) == 1
    assert "deleted 1 object" in logs.ok("apply", out, "--yes").out


def gc(logs: CommandLine, *args: str) -> Any:
    (done,) = logs.ok("gc", "sales", "--lifecycle", *NOW, *args, "--json").json["stores"]
    return done


def test_a_run_takes_what_rules_match_and_the_next_one_starts_from_it(logs: CommandLine) -> None:
    done = gc(logs)
    assert (done["objects"], done["policy_source"]) == (2, "none")
    assert (done["lifecycle"]["mode"], done["lifecycle"]["held"]) == ("full", 0)
    again = gc(logs)
    assert again["objects"] == 0
    assert (again["lifecycle"]["mode"], again["lifecycle"]["ranges_read"]) == ("incremental", 0)
    full = gc(logs, "--full")
    assert (full["objects"], full["lifecycle"]["gone"]) == (0, 2)
    assert full["lifecycle"]["mode"] == "full"
    assert "sales: deleted 0 objects" in logs.ok("gc", "sales", "--lifecycle", *NOW).out


def test_what_something_holds_is_told(logs: CommandLine) -> None:
    logs.ok("cp", "sales/main/logs/b", "sales/main/kept")
    logs.ok("commit", "sales/main", "-m", "second")
    said = logs.ok("gc", "sales", "--lifecycle", *NOW).out
    assert "sales: deleted 1 object (6 B); kept 1 object matched by rules" in said
    show = re.search(r"reclaim (show \S+ --held)", said)
    assert show is not None
    assert "kept on the branch main" in logs.ok(*show[1].split()).out


def test_what_it_refuses(logs: CommandLine, later: None) -> None:
    much = ("gc", "sales", "--lifecycle", "--min-age", "0", "--max-objects", "1", "--json")
    assert logs(*much).error["kind"] == "too_much"
    logs.ok("lifecycle", "unset", "sales")
    for command in ("plan", "gc"):
        assert logs(command, "sales", "--lifecycle", "--json").error["kind"] == "not_found"
    assert logs("show", "nowhere", "--held", "--objects", "--json").code


def test_a_collection_takes_nothing_by_lifecycle_rules(logs: CommandLine) -> None:
    logs.ok("put", "-", "sales/main/wrong", stdin=b"never committed")
    logs.ok("reset", "sales/main")
    (done,) = logs.ok("gc", "sales", *NOW, "--json").json["stores"]
    assert done["objects"] >= 1
    assert done["lifecycle"] is None
    logs.ok("get", "sales/main/logs/a", "-")
    assert gc(logs)["objects"] == 2


def test_with_all_repositories_without_an_enabled_rule_are_passed_over(
    logs: CommandLine,
) -> None:
    logs.ok("repo", "create", "plain")
    off = {"logs": {**RULES["logs"], "enabled": False}}
    logs.ok("lifecycle", "set", "sales", stdin=json.dumps(off).encode())
    assert logs("gc", "sales", "--lifecycle", *NOW, "--json").error["kind"] == "invalid_input"
    every = ("gc", "--all", "--lifecycle", *NOW)
    done = {row["store"]: row for row in logs.ok(*every, "--json").json["stores"]}
    assert {row["state"] for row in done.values()} == {"nothing"}
    assert {row["plan"] for row in done.values()} == {None}
    assert done["sales"]["warnings"] == ["no lifecycle rule is enabled"]
    assert done["plain"]["warnings"] == ["no lifecycle rules are stored"]
    said = "plain: no lifecycle rules are stored\nsales: no lifecycle rule is enabled\n"
    assert logs.ok(*every).out == said
    logs.ok("lifecycle", "set", "sales", stdin=json.dumps(RULES).encode())
    assert "sales: deleted 2 objects" in logs.ok(*every).out


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
        assert logs("gc", "sales", "--lifecycle", *NOW, "--json").error["kind"] == "partial"
    logs.ok("lifecycle", "set", "sales", stdin=b'{"logs": {"prefix": "logs/", "days": 300}}')
    refused = logs("gc", "sales", "--lifecycle", *NOW, "--json").error
    assert refused["kind"] == "refused"
    run = refused["hint"].rpartition("reclaim undo ")[2]
    logs.fails("gone", 9, "cp", "sales/main/logs/a", "sales/main/kept")
    told = logs.ok("undo", run).out
    assert "released 2 objects not deleted yet; 0 objects are deleted for good" in told
    logs.ok("cp", "sales/main/logs/a", "sales/main/kept")
