"""``reclaim lifecycle set|get|unset|history``, and expired entries in ``reclaim ls``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reclaim.catalog import Catalog
from tests.catalog.claiming import RULE, claiming
from tests.cli.conftest import CommandLine

JSON = """{
  "rule1": {"prefix": "foo/bar", "days": 10, "enabled": true, "branch_days": {"b1": 5, "b2": 2}},
  "rule2": {"prefix": "foo/zoo", "enabled": true, "branch_days": {"main": 5}}
}
"""
YAML = """rule1:
  prefix: ""
  days: 30
  enabled: false
"""


def test_rules_are_stored_shown_and_removed(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "rules.json"
    file.write_text(JSON)
    cli.fails("not_found", 3, "lifecycle", "get", "sales")
    cli.fails("not_found", 3, "lifecycle", "unset", "sales")
    said = cli.ok("lifecycle", "set", "sales", str(file)).out
    assert "  rule1: below foo/bar after 5 days on b1, 2 days on b2, 10 days on every other" in said
    assert "  rule2: below foo/zoo after 5 days on main\n" in said
    assert "Note: the rule rule1 names the branch b1, which does not exist yet." in said
    assert "reclaim plan sales --lifecycle" in said
    assert cli.ok("lifecycle", "get", "sales").out == JSON
    got = cli.ok("lifecycle", "get", "sales", "--json").json
    assert got["rules"] == json.loads(JSON)
    changed = cli.ok("lifecycle", "set", "sales", "-", "--json", stdin=YAML.encode()).json
    assert changed["rules"] == {"rule1": {"prefix": "", "days": 30, "enabled": False}}
    assert changed["warnings"] == ["the rule rule1 is disabled and does nothing"]
    assert cli.ok("lifecycle", "set", "sales", stdin=YAML.encode()).out.splitlines()[1] == (
        "  rule1: everything after 30 days (disabled)"
    )
    once = cli.ok("lifecycle", "set", "sales", stdin=b"r: {prefix: a/, days: 1}").out
    assert "  r: below a/ after 1 day\n" in once
    assert "Removed" in cli.ok("lifecycle", "unset", "sales").out
    cli.fails("not_found", 3, "lifecycle", "get", "sales")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": {"prefix": "x", "day": 3}}', "a: day"),
        ('{"a": {"prefix": "x"}}', "a: "),
        ('{"a": {"prefix": "x", "days": 0}}', "a: days"),
        ('{"a": {"days": 3}}', "a: prefix"),
        ('{"a": {"prefix": "x", "branch_days": {"b": "3"}}}', "a: branch_days: b"),
        ("[1]", "mapping of rule ids to rules"),
        ("", "mapping of rule ids to rules"),
    ],
)
def test_what_is_wrong_is_told_by_rule_and_field(cli: CommandLine, text: str, said: str) -> None:
    error = cli.fails("invalid_input", 2, "lifecycle", "set", "sales", stdin=text.encode())
    assert said in error["message"]
    cli.fails("not_found", 3, "lifecycle", "get", "sales")
    cli.fails("invalid_input", 2, "lifecycle", "set", "sales", "no-such-file")


def test_rules_that_cannot_be_read_are_an_error_and_can_be_removed(
    cli: CommandLine, location: Path
) -> None:
    from reclaim.stores.catalog import CatalogStore

    with Catalog.open(str(location)) as catalog:
        CatalogStore(catalog.workspace("sales")).store_lifecycle('{"format": 9}')
    cli.fails("unknown_version", 6, "lifecycle", "get", "sales")
    cli.ok("lifecycle", "unset", "sales")


def test_no_run_yet(cli: CommandLine) -> None:
    out = cli.ok("lifecycle", "history", "sales").out
    assert "No run of lifecycle rules has deleted data" in out
    assert cli.ok("lifecycle", "history", "sales", "--json").json["runs"] == []


def test_an_expired_entry_is_listed_as_such(cli: CommandLine, location: Path) -> None:
    for path in ("logs/a", "logs/b"):
        cli.ok("put", "-", f"sales/main/{path}", stdin=b"bytes")
    cli.ok("commit", "sales/main", "-m", "first")
    with Catalog.open(str(location)) as catalog:
        repo = catalog.repository("sales")
        with claiming(repo) as run:
            run.take(repo.branch("main").stat("logs/a").address)
    listed = cli.ok("ls", "sales/main/logs/").out.splitlines()
    assert [line.split()[0] for line in listed[-3:-1]] == ["expired", "5"]
    assert listed[-1] == "Expired: 1 object, data deleted by lifecycle run run-7."
    entries = cli.ok("ls", "-r", "sales/main", "--json").json["entries"]
    assert [entry["expired"] for entry in entries] == [{"run": "run-7", "rule": RULE}, None]
    error = cli.fails("gone", 9, "get", "sales/main/logs/a")
    assert error["details"] == {"run": "run-7", "rule": RULE}
