"""``--uncommitted`` on the command line: what it says, and what it takes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reclaim.catalog import Catalog
from reclaim.catalog.collection.roots import observing
from reclaim.run_record import COLLECT, Phase, RunRecord
from reclaim.stores.registry import find
from tests.cli.conftest import CommandLine

pytestmark = pytest.mark.usefixtures("plain")
NOW = ("--min-age", "0")


@pytest.fixture(autouse=True)
def final_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions of commands that have ended are final: here no time passes."""
    monkeypatch.setattr(observing, "LONGEST_MARGIN", timedelta(0))


def plan(cli: CommandLine, *args: str) -> Any:
    return cli.ok("plan", "sales", "--uncommitted", *NOW, *args, "--json").json


def put(cli: CommandLine, path: str) -> None:
    cli.ok("put", "-", f"sales/main/{path}", stdin=path.encode())


def test_a_full_run_and_then_incremental_ones(cli: CommandLine, location: Path) -> None:
    for path in ("a", "b", "c"):
        put(cli, path)
    cli.ok("commit", "sales/main", "-m", "first")
    put(cli, "wrong")
    made = plan(cli)
    assert (made["uncommitted"]["mode"], made["uncommitted"]["why"]) == (
        "full",
        "there is no checkpoint yet",
    )
    assert made["uncommitted"]["partitions_listed"] >= 4
    assert made["uncommitted"]["ranges_read"] == 1
    assert made["uncommitted"]["bytes_read"] > 0
    assert made["candidates"] == 0
    cli.ok("apply", made["plan"], "--yes")

    cli.ok("reset", "sales/main")
    made = plan(cli)
    assert made["uncommitted"]["mode"] == "incremental"
    assert made["uncommitted"]["why"].startswith("the checkpoint of run ")
    assert made["uncommitted"]["ranges_read"] == 0
    data = [group for group in made["going"] if group["kind"] == "data"]
    assert sum(group["objects"] for group in data) == 1
    assert made["uncommitted"]["objects_looked_up"] == 1
    shown = cli.ok("show", made["plan"]).out
    assert "An incremental run: the checkpoint of run " in shown
    assert "and looked up 1 object, and read 0 ranges" in shown
    applied = cli.ok("apply", made["plan"], "--yes", "--json").json
    assert applied["objects"] >= 1
    assert "nothing to collect" not in cli.ok("runs", "sales").out

    again = cli.ok("plan", "sales", "--uncommitted").out
    assert "An incremental run" in again
    assert "nothing would go.\nTo let the next run start from here: reclaim apply " in again
    clean = plan(cli, "--full")
    assert (clean["uncommitted"]["mode"], clean["uncommitted"]["why"]) == (
        "full",
        "it was asked for",
    )
    assert [group for group in clean["going"] if group["kind"] == "data"] == []


def test_one_branch(cli: CommandLine) -> None:
    for branch in ("main", "work"):
        if branch == "work":
            cli.ok("branch", "create", "sales/work", "--from", "main")
        cli.ok("put", "-", f"sales/{branch}/x", stdin=b"x")
        cli.ok("reset", f"sales/{branch}")
    cli.ok("branch", "delete", "sales/work")
    made = plan(cli, "--branch", "work", "--unsafe-allow-fraction", "1")
    assert {group["branch"] for group in made["going"]} == {"work"}
    assert made["uncommitted"]["partitions"] is None
    text = cli.ok(
        "plan", "sales", "--uncommitted", *NOW, "--branch", "work", "--unsafe-allow-fraction", "1"
    )
    assert "A clean run of the branch work: there is no checkpoint yet." in text.out


def test_a_branch_that_there_is_not(cli: CommandLine) -> None:
    error = cli.fails("not_found", 3, "plan", "sales", "--uncommitted", "--branch", "mian")
    assert "has no branch 'mian', and nothing was uploaded to one" in error["message"]
    # One that is there, and to which nothing was uploaded.
    assert plan(cli, "--branch", "main")["candidates"] == 0


def test_what_is_protected(cli: CommandLine) -> None:
    shown = cli.ok("repo", "set", "sales", "protect=raw/*,*.csv", "--json").json
    assert shown["settings"] == {"hard_delete": "off", "protect": "raw/*,*.csv"}
    put(cli, "raw/1")
    put(cli, "free")
    cli.ok("reset", "sales/main")
    made = plan(cli)
    assert made["protect"] == ["raw/*", "*.csv"]
    kept = {group["reason"]: group["objects"] for group in made["staying"]}
    assert kept["protected by raw/*"] == 1
    for cut in ("a,,b", "raw/[a,b]*", "{x,y}/*"):
        cli.fails("invalid_input", 2, "repo", "set", "sales", f"protect={cut}")
    assert cli.ok("repo", "set", "sales", "protect=", "--json").json["settings"]["protect"] == ""


def test_runs_says_that_the_last_one_is_too_old(cli: CommandLine, catalog: Catalog) -> None:
    assert cli.ok("runs", "sales", "--json").json["late"] == []
    store = find(catalog, "sales")
    long_ago = store.clock.now() - timedelta(days=40)
    store.add_run(RunRecord("0" * 32, COLLECT, Phase.DONE, long_ago))
    [late] = cli.ok("runs", "sales", "--json").json["late"]
    assert late["message"].startswith("the last finished run was on ")
    assert f"Note: sales: {late['message']}; run `reclaim gc sales`" in cli.ok("runs").out
    assert late["message"] in cli.ok("doctor").out


def test_in_one_go(cli: CommandLine) -> None:
    for branch in ("main", "work"):
        if branch == "work":
            cli.ok("branch", "create", "sales/work", "--from", "main")
        put(cli, "wrong") if branch == "main" else cli.ok(
            "put", "-", "sales/work/wrong", stdin=b"wrong"
        )
        cli.ok("reset", f"sales/{branch}")
    every = ("gc", "sales", "--uncommitted", *NOW, "--unsafe-allow-fraction", "1", "--json")
    (one,) = cli.ok(*every, "--branch", "work").json["stores"]
    assert (one["state"], one["objects"], one["policy_source"]) == ("done", 1, "none")
    assert one["uncommitted"]["why"] == "there is no checkpoint yet"
    # A run of one branch leaves no checkpoint; the next one does, and the one after uses it.
    modes = [cli.ok(*every).json["stores"][0]["uncommitted"]["mode"] for _ in range(2)]
    assert modes == ["full", "incremental"]
    (full,) = cli.ok(*every, "--full").json["stores"]
    assert (full["uncommitted"]["mode"], full["uncommitted"]["why"]) == (
        "full",
        "it was asked for",
    )


def test_of_all_repositories(cli: CommandLine) -> None:
    put(cli, "wrong")
    cli.ok("reset", "sales/main")
    cli.ok("repo", "create", "gone")
    cli.ok("put", "-", "gone/main/a", stdin=b"a")
    cli.ok("repo", "delete", "gone", "--yes")
    every = ("gc", "--all", "--uncommitted", *NOW, "--unsafe-allow-fraction", "1", "--json")
    first = {row["store"]: row for row in cli.ok(*every).json["stores"]}
    assert {row["state"] for row in first.values()} == {"done"}
    assert first["gone"]["objects"] >= 1
    again = {row["store"]: row for row in cli.ok(*every).json["stores"]}
    assert again["gone"]["objects"] == 0
    assert again["sales"]["objects"] == 0
