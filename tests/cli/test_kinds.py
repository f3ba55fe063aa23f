"""Kinds of runs: one convention for ``plan``, ``apply`` and ``gc``."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from reclaim.catalog import Catalog
from reclaim.catalog.collection.roots import observing
from reclaim.catalog.database.schema import metadata
from reclaim.cli.options import panels
from tests.cli.commands import walk
from tests.cli.conftest import CommandLine, Spawn

NOW = ("--min-age", "0", "--unsafe-allow-fraction", "1")
KINDS: dict[str, tuple[str, ...]] = {
    "collect": ("--keep-last", "1", *NOW),
    "history-only": ("--history-only", "--keep-last", "1"),
    "uncommitted": ("--uncommitted", *NOW),
    "uncommitted of a branch": ("--uncommitted", "--branch", "main", *NOW),
    "lifecycle": ("--lifecycle", *NOW),
}
"""The options of each kind of run."""
PLANS = "plans"
"""The table that notes plans."""


@pytest.fixture(autouse=True)
def final_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions of commands that have ended are final: here no time passes."""
    monkeypatch.setattr(observing, "LONGEST_MARGIN", timedelta(0))


@pytest.fixture
def garbage(cli: CommandLine) -> CommandLine:
    """Something for every kind of run."""
    for number in range(3):
        cli.ok("put", "-", "sales/main/a", stdin=f"{number}".encode())
        cli.ok("commit", "sales/main", "-m", f"{number}")
    cli.ok("put", "-", "sales/main/wrong", stdin=b"never committed")
    cli.ok("reset", "sales/main")
    cli.ok("lifecycle", "set", "sales", stdin=b"all: {prefix: '', days: 1}")
    return cli


def rows(location: Path) -> dict[str, list[Any]]:
    """All rows of the database."""
    with Catalog.open(location) as catalog, catalog._database.read() as connection:
        return {
            table.name: sorted(map(str, connection.execute(select(table))))
            for table in metadata.sorted_tables
        }


def files(location: Path) -> dict[str, bytes]:
    """All objects with their bytes."""
    objects = location / "objects"
    return {
        str(file.relative_to(objects)): file.read_bytes()
        for file in objects.rglob("*")
        if file.is_file()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_changes_nothing(
    garbage: CommandLine, location: Path, tmp_path: Path, plain: None, kind: str
) -> None:
    before = rows(location), files(location)
    out = tmp_path / "plan"
    made = garbage.ok("plan", "sales", *KINDS[kind], "--out", str(out), "--json").json
    assert (out / "plan.json").exists()
    after = rows(location), files(location)
    assert after[1] == before[1]
    changed = {name for name in after[0] if after[0][name] != before[0][name]}
    assert changed == {PLANS}
    # The plan can be shown and applied like any other.
    assert f"Plan {made['run'][:12]} for sales" in garbage.ok("show", str(out)).out
    done = garbage.ok("apply", str(out), "--yes", "--json").json
    assert done["run"] == made["run"]


@pytest.mark.parametrize("kind", KINDS)
def test_in_one_go_each_kind_does_the_same_as_plan_and_apply(
    garbage: CommandLine, plain: None, kind: str
) -> None:
    planned = garbage.ok("plan", "sales", *KINDS[kind], "--json").json
    (done,) = garbage.ok("gc", "sales", *KINDS[kind], "--json").json["stores"]
    assert done["state"] == ("done" if planned["candidates"] or "branch" not in kind else "nothing")
    # Without the plan itself, which the later run collects as well.
    data = sum(group["objects"] for group in planned["going"] if group["kind"] == "data")
    assert done["objects"] >= data
    assert done["policy_source"] == planned["policy_source"]


REFUSED = {
    "--uncommitted --lifecycle": "--uncommitted and --lifecycle exclude each other",
    "--history-only --uncommitted": "--history-only and --uncommitted exclude each other",
    "--ref main": "--ref needs --history-only",
    "--uncommitted --ref main": "--ref needs --history-only",
    "--history-only --full": "--full needs --uncommitted or --lifecycle",
    "--history-only --min-age 1h": "--min-age cannot be combined with --history-only",
    "--history-only --inventory x": "--inventory cannot be combined with --history-only",
    "--history-only --engine local": "--engine cannot be combined with --history-only",
    "--branch main": "--branch needs --uncommitted",
    "--lifecycle --branch main": "--branch needs --uncommitted",
    "--full": "--full needs --uncommitted or --lifecycle",
    "--uncommitted --keep-last 3": "--keep-last cannot be combined with --uncommitted",
    "--lifecycle --policy x": "--policy cannot be combined with --lifecycle",
    "--lifecycle --inventory x": "--inventory cannot be combined with --lifecycle",
    "--uncommitted --old-backups": "--old-backups cannot be combined with --uncommitted",
}
"""Options that do not go together, and the sentence that says so."""


@pytest.mark.parametrize("command", ["plan", "gc"])
@pytest.mark.parametrize("options", REFUSED)
def test_options_that_do_not_go_together(cli: CommandLine, command: str, options: str) -> None:
    error = cli.fails("invalid_input", 2, command, "sales", *options.split())
    assert error["message"] == REFUSED[options]


@pytest.mark.parametrize(
    "option", [("--quarantine",), ("--no-quarantine",), ("--markers",), ("--max-bytes", "1MB")]
)
def test_an_edit_of_the_history_takes_no_options_of_deletions(
    cli: CommandLine, option: tuple[str, ...]
) -> None:
    error = cli.fails("invalid_input", 2, "gc", "sales", "--history-only", *option)
    assert error["message"].startswith("--")
    assert error["message"].endswith("cannot be combined with --history-only")


@pytest.mark.parametrize("kind", ["--uncommitted", "--lifecycle"])
def test_a_stored_policy_is_for_kinds_with_rules(
    garbage: CommandLine, plain: None, kind: str
) -> None:
    garbage.ok("policy", "set", "sales", "--keep-last", "1")
    made = garbage.ok("plan", "sales", kind, *NOW, "--json").json
    assert (made["policy_source"], made["expired"], made["history"]["reparented"]) == ("none", 0, 0)
    assert garbage.ok("plan", "sales", *NOW, "--json").json["policy_source"] == "stored"
    before = garbage.ok("log", "sales", "--json").json
    garbage.ok("gc", "sales", kind, *NOW)
    assert garbage.ok("log", "sales", "--json").json == before


def test_a_setting_is_no_option(
    garbage: CommandLine, plain: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings speak for all runs: those that a kind has no use for do not stop a run."""
    monkeypatch.setenv("RECLAIM_MIN_AGE", "1h")
    monkeypatch.setenv("RECLAIM_QUARANTINE", "on")
    for options in KINDS.values():
        garbage.ok("plan", "sales", *(each for each in options if each not in NOW[:2]))


GROUPED = ("plan", "gc", "apply", "undo", "purge", "doctor", "show")


@pytest.mark.parametrize("name", GROUPED)
def test_every_option_has_a_group(name: str) -> None:
    [command] = [command for path, command in walk() if path == (name,)]
    ungrouped = [
        parameter.name
        for parameter in command.params
        if panels.panel_of(parameter) in (panels.OTHER, None)
    ]
    assert ungrouped == []


def test_global_options_are_shown_once_and_last(bare: CommandLine) -> None:
    for path, _ in walk():
        shown = bare.ok(*path, "--help").out
        own, head, last = shown.partition(f"\n{panels.GLOBAL}:\n")
        assert head
        for option in ("--catalog", "--json", "--quiet", "--verbose", "--log-format", "--help"):
            assert f"{option} " not in own
            assert last.count(option) == 1


def test_help_has_every_command_in_a_group(bare: CommandLine) -> None:
    shown = bare.ok("--help").out
    for panel, names in panels.COMMANDS.items():
        _, head, rest = shown.partition(f"\n{panel}:\n")
        assert head
        listed = [line.split()[0] for line in rest.split("\n\n")[0].splitlines() if line[2] != " "]
        assert listed == list(names)


@pytest.mark.parametrize("stdout", ["full", "closed"])
@pytest.mark.parametrize("as_json", [False, True])
def test_an_error_of_stdout_stops_no_collection(
    cli: CommandLine, spawn: Spawn, location: Path, plain: None, stdout: str, as_json: bool
) -> None:
    for name in ("sales", "shop", "zoo"):
        if name != "sales":
            cli.ok("repo", "create", name)
        cli.ok("put", "-", f"{name}/main/wrong", stdin=b"never committed")
        cli.ok("reset", f"{name}/main")
    if stdout == "full":
        target = os.open("/dev/full", os.O_WRONLY)
    else:
        read, target = os.pipe()
        os.close(read)
    asked = ["gc", "--all", *NOW, "--engine", "local", *["--json"] * as_json]
    process = spawn(*asked, stdout=target)
    os.close(target)
    process.communicate()
    assert process.returncode == {"full": 5, "closed": 141}[stdout]
    assert not [name for name in files(location) if "/branches/" in name]
    runs = cli.ok("runs", "--json").json["runs"]
    assert sorted((run["repository"], run["state"]) for run in runs) == [
        ("sales", "done"),
        ("shop", "done"),
        ("zoo", "done"),
    ]
    assert all(run["summary"]["objects"] for run in runs)
