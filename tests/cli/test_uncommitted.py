"""``reclaim uncommitted`` on the command line: what it says, and what it takes."""

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
    return cli.ok("uncommitted", "sales", *NOW, *args, "--json").json


def put(cli: CommandLine, path: str) -> None:
    cli.ok("put", "-", f"sales/main/{path}", stdin=path.encode())


def test_a_clean_run_and_then_optimized_ones(cli: CommandLine, location: Path) -> None:
    for path in ("a", "b", "c"):
        put(cli, path)
    cli.ok("commit", "sales/main", "-m", "first")
    put(cli, "wrong")
    made = plan(cli)
    assert (made["mode"], made["why"]) == ("clean", "there is no checkpoint yet")
    assert made["partitions_listed"] >= 4
    assert made["ranges_read"] == 1
    assert made["bytes_read"] > 0
    assert made["candidates"] == 0
    cli.ok("apply", made["plan"], "--yes")

    cli.ok("reset", "sales/main")
    made = plan(cli)
    assert made["mode"] == "optimized"
    assert made["why"].startswith("the checkpoint of run ")
    assert (made["objects_listed"], made["ranges_read"]) == (
        made["uncommitted"]["objects_listed"],
        0,
    )
    data = [group for group in made["going"] if group["kind"] == "data"]
    assert sum(group["objects"] for group in data) == 1
    assert made["uncommitted"]["objects_looked_up"] == 1
    shown = cli.ok("show", made["plan"]).out
    assert "An optimized run: the checkpoint of run " in shown
    assert "and looked up 1 object, and read 0 ranges" in shown
    applied = cli.ok("apply", made["plan"], "--yes", "--json").json
    assert applied["objects"] >= 1
    assert "nothing to collect" not in cli.ok("runs", "sales").out

    again = cli.ok("uncommitted", "sales").out
    assert "An optimized run" in again
    assert "nothing would go.\nTo let the next run start from here: reclaim apply " in again
    clean = plan(cli, "--mode", "clean")
    assert (clean["mode"], clean["why"]) == ("clean", "it was asked for")
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
    text = cli.ok("uncommitted", "sales", *NOW, "--branch", "work", "--unsafe-allow-fraction", "1")
    assert "A clean run of the branch work: there is no checkpoint yet." in text.out


def test_a_branch_that_there_is_not(cli: CommandLine) -> None:
    error = cli.fails("not_found", 3, "uncommitted", "sales", "--branch", "mian")
    assert "has no branch 'mian', and nothing was uploaded to one" in error["message"]
    # One that is there, and to which nothing was uploaded.
    assert plan(cli, "--branch", "main")["candidates"] == 0


def test_a_mode_that_there_is_not(cli: CommandLine) -> None:
    error = cli.fails("invalid_input", 2, "uncommitted", "sales", "--mode", "quick")
    assert error["hint"] == "say clean, optimized, auto"


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
