"""Quarantine on the command line: apply --quarantine, runs, undo, purge; text, JSON, exit codes."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reclaim.catalog import Catalog
from reclaim.ids import short
from reclaim.stores.registry import find
from tests.cli.conftest import CommandLine

pytestmark = pytest.mark.usefixtures("plain")


@pytest.fixture
def planned(cli: CommandLine) -> Any:
    """A plan that takes two commits with what they have, and an upload that was thrown away."""
    for number in range(3):
        cli.ok("put", "-", "sales/main/a", stdin=b"x" * (number + 1))
        cli.ok("commit", "sales/main", "-m", str(number))
    cli.ok("put", "-", "sales/main/wrong", stdin=b"wrong")
    cli.ok("reset", "sales/main")
    return cli.ok("plan", "sales", "--min-age", "0", "--keep-last", "1", "--json").json


@pytest.fixture
def aside(cli: CommandLine, planned: Any) -> Any:
    return cli.ok("apply", planned["plan"], "--yes", "--quarantine", "--json").json


def in_quarantine(location: Path) -> int:
    found = location.glob("objects/repos/*/_reclaim/quarantine/**/*")
    return sum(file.is_file() for file in found)


def only_run(cli: CommandLine, run: str) -> Any:
    [found] = [one for one in cli.ok("runs", "--json").json["runs"] if one["id"] == run]
    return found


def test_what_an_apply_says(cli: CommandLine, planned: Any, location: Path) -> None:
    said = cli.ok("apply", planned["plan"], "--yes", "--quarantine", "--keep", "3d").out
    first, second = said.splitlines()
    edited = r"edited the history \(removed 2 commits from it, re-linked 1 commit\)"
    done = rf"sales: moved 7 objects \(.*\) to quarantine and removed 2 commits; {edited}\."
    assert re.fullmatch(done, first)
    assert re.search(r"purged, possible from \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\. ", second)
    assert second.endswith(f"Undo it with: reclaim undo {short(planned['run'])}")
    assert in_quarantine(location) == 7
    assert cli.ok("get", "sales/main/a", "-").out == "xxx"
    again = cli.ok("apply", planned["plan"], "--yes", "--quarantine").out
    assert again.splitlines()[0] == first


def test_what_an_apply_tells_programs(cli: CommandLine, planned: Any, aside: Any) -> None:
    told = {name: aside[name] for name in ("run", "store", "objects", "failed", "collected")}
    assert told == {
        "run": planned["run"],
        "store": "sales",
        "objects": 7,
        "failed": 0,
        "collected": 2,
    }
    run = only_run(cli, planned["run"])
    assert (run["state"], run["quarantine"]) == ("done", "moved")
    assert datetime.fromisoformat(run["until"]) == datetime.fromisoformat(aside["until"])
    kept = datetime.fromisoformat(run["until"]) - datetime.fromisoformat(run["summary"]["since"])
    assert kept == timedelta(days=7)


def test_what_an_apply_asks(cli: CommandLine, planned: Any, location: Path) -> None:
    error = cli.fails("refused", 6, "apply", planned["plan"], "--quarantine")
    assert error["message"].startswith("refusing to move 7 objects")
    cli.fails("invalid_input", 2, "apply", planned["plan"], "--yes", "--keep", "3d")
    cli.fails("invalid_input", 2, "apply", planned["plan"], "--yes", "--markers")
    bad = ("--quarantine", "--keep", "long")
    assert "--keep" in cli.fails("invalid_input", 2, "apply", planned["plan"], *bad)["message"]
    marked = ("--yes", "--quarantine", "--markers")
    error = cli.fails("refused", 6, "apply", planned["plan"], *marked)
    assert "versioning" in error["message"]
    assert in_quarantine(location) == 0
    assert cli.ok("runs").out == ""


def test_runs_say_what_is_in_quarantine(cli: CommandLine, planned: Any, aside: Any) -> None:
    until = f"{datetime.fromisoformat(aside['until']):%Y-%m-%d %H:%M:%S}"
    assert f"kept until {until}" in cli.ok("runs", "sales").out
    assert "moved 7 objects" in cli.ok("runs").out
    cli.ok("undo", planned["run"])
    line = cli.ok("runs", "sales").out
    assert "undone" in line
    assert "kept until" not in line
    assert only_run(cli, planned["run"])["until"] is None


def test_an_undo(cli: CommandLine, planned: Any, aside: Any, location: Path) -> None:
    assert aside["objects"] == 7
    cli.ok("log", "sales")
    said = cli.ok("undo", planned["run"]).out
    what = (
        rf"Undid run {short(planned['run'])}: restored 7 objects \(.*\) and 2 commits\.\n"
        r"No run deletes the restored data before .* UTC\.\n"
        r"To end this hold: reclaim lease release sales "
        rf"--holder 'undo of run {planned['run']}'\n"
    )
    assert re.fullmatch(what, said)
    assert in_quarantine(location) == 0
    assert len(cli.ok("log", "sales", "--json").json["commits"]) == 4
    error = cli.fails("conflict", 4, "undo", planned["run"])
    assert "undone already" in error["message"]
    error = cli.fails("plan_refused", 6, "apply", planned["plan"], "--yes", "--quarantine")
    assert "its run was undone" in error["message"]


def test_an_undo_names_what_it_left(cli: CommandLine, location: Path) -> None:
    for number in range(2):
        cli.ok("put", "-", "sales/main/a", stdin=b"x" * (number + 1))
        cli.ok("commit", "sales/main", "-m", str(number))
    with Catalog.open(location) as catalog:
        newest, old, *_ = catalog.repository("sales").log("main")
    cli.ok("tag", "create", "sales/old", old.id)
    options = ("--older-than", newest.written_at.isoformat(), "--delete-expired-tags")
    made = cli.ok("plan", "sales", "--min-age", "0", *options, "--json").json
    assert made["deleted_refs"]
    cli.ok("apply", made["plan"], "--yes", "--quarantine")
    cli.ok("tag", "create", "sales/old", "main")
    told = cli.ok("undo", made["run"], "--json").json
    assert told["run"] == made["run"]
    assert told["left"] == ["the tag old"]
    # Main reaches all that came back.
    assert told["held"] == []
    parts = {"run", "store", "objects", "bytes", "restored", "left", "held", "deleted"}
    assert set(told) == parts | {"released", "gone", "until"}


def test_a_purge(cli: CommandLine, planned: Any, aside: Any, location: Path) -> None:
    assert cli.ok("purge").out == "No quarantined objects are due.\n"
    assert cli.ok("purge", "sales", "--json").json == {"stores": []}
    error = cli.fails("refused", 6, "purge", "--older-than", "0s")
    assert "quarantined objects of 1 run" in error["message"]
    cli.fails("invalid_input", 2, "purge", "--older-than", "old", "--yes")
    cli.fails("not_found", 3, "purge", "none", "--yes")
    assert in_quarantine(location) == aside["objects"]
    said = cli.ok("purge", "sales", "--older-than", "0s", "--yes").out
    assert re.fullmatch(
        r"sales: deleted 7 objects \(.*\) from the quarantine of 1 run, for good\.\n", said
    )
    assert in_quarantine(location) == 0
    run = only_run(cli, planned["run"])
    assert (run["state"], run["until"]) == ("purged", None)
    error = cli.fails("refused", 6, "undo", planned["run"])
    assert "purged" in error["message"]
    cli.fails("plan_refused", 6, "apply", planned["plan"], "--yes", "--quarantine")
    assert cli.ok("get", "sales/main/a", "-").out == "xxx"


def test_a_purge_of_one_run(cli: CommandLine, planned: Any, aside: Any, location: Path) -> None:
    """Before its time, and no other with it."""
    cli.ok("put", "-", "sales/main/b", stdin=b"wrong")
    cli.ok("reset", "sales/main")
    other = cli.ok("plan", "sales", "--min-age", "0", "--json").json
    kept = cli.ok("apply", other["plan"], "--yes", "--quarantine", "--json").json
    one = ("purge", "--run", planned["run"][:8])
    cli.fails("invalid_input", 2, *one, "--older-than", "0s", "--yes")
    cli.fails("not_found", 3, "purge", "--run", "f" * 32, "--yes")
    assert f"run {short(planned['run'])} of sales" in cli.fails("refused", 6, *one)["message"]
    latest = cli.fails("refused", 6, "purge", "--run", "latest")
    assert f"run {short(kept['run'])} of sales" in latest["message"]
    assert "another run" in cli.fails("refused", 6, "purge", "--run", "latest", "--yes")["message"]
    assert in_quarantine(location) == kept["objects"] + aside["objects"]
    [told] = cli.ok(*one, "--yes", "--json").json["stores"]
    assert told["runs"] == [planned["run"]]
    assert in_quarantine(location) == kept["objects"]
    assert "has nothing in quarantine" in cli.fails("refused", 6, *one, "--yes")["message"]


def test_what_a_purge_tells_programs(cli: CommandLine, planned: Any, aside: Any) -> None:
    [told] = cli.ok("purge", "--older-than", "0s", "--yes", "--json").json["stores"]
    assert told["store"] == "sales"
    assert told["runs"] == [planned["run"]]
    assert (told["objects"], told["bytes"], told["failed"]) == (7, aside["bytes"], 0)
    purging = only_run(cli, told["run"])
    assert (purging["kind"], purging["state"]) == ("purge", "done")


def test_a_purge_that_leaves_a_run_goes_on_with_other_stores(
    cli: CommandLine, planned: Any, aside: Any, location: Path
) -> None:
    """One whose record is gone, and in whose folder there is a link."""
    cli.ok("repo", "create", "orders")
    cli.ok("put", "-", "orders/main/a", stdin=b"wrong")
    cli.ok("reset", "orders/main")
    other = cli.ok("plan", "orders", "--min-age", "0", "--unsafe-allow-fraction", "1", "--json")
    cli.ok("apply", other.json["plan"], "--yes", "--quarantine")
    Path(planned["plan"], "plan.json").unlink()
    [folder] = location.glob(f"objects/repos/*/_reclaim/quarantine/{planned['run']}")
    (folder / "link").symlink_to("branches")
    result = cli("purge", "--older-than", "0s", "--yes")
    assert result.code == 7
    assert f"sales: run {planned['run']} was not purged" in result.err
    assert "orders: purged 1 runs" in result.err
    assert in_quarantine(location) == aside["objects"]


def test_a_purge_of_all_stores_of_which_one_is_locked(
    cli: CommandLine, planned: Any, aside: Any, location: Path
) -> None:
    cli.ok("repo", "create", "orders")
    cli.ok("put", "-", "orders/main/a", stdin=b"wrong")
    cli.ok("reset", "orders/main")
    other = cli.ok("plan", "orders", "--min-age", "0", "--unsafe-allow-fraction", "1", "--json")
    cli.ok("apply", other.json["plan"], "--yes", "--quarantine")
    with Catalog.open(location) as catalog, find(catalog, "sales").lock("f" * 32):
        result = cli("purge", "--older-than", "0s", "--yes", "--json")
    error = result.error
    assert (result.code, error["kind"]) == (7, "partial")
    assert f"sales: run {'f' * 32} is working on this" in error["message"]
    assert "orders: purged 1 runs" in error["message"]
    assert error["details"]["stores"]["sales"]["kind"] == "conflict"
    assert error["details"]["stores"]["orders"]["runs"] == [other.json["run"]]
    assert in_quarantine(location) == aside["objects"]
    assert only_run(cli, planned["run"])["state"] == "done"


def test_a_run_that_deleted_cannot_be_undone(cli: CommandLine, planned: Any) -> None:
    cli.ok("apply", planned["plan"], "--yes")
    error = cli.fails("refused", 6, "undo", planned["run"])
    assert "put nothing in quarantine" in error["message"]
    assert "--quarantine" in error["hint"]
    cli.fails("not_found", 3, "undo", "0" * 32)
    error = cli.fails("plan_refused", 6, "apply", planned["plan"], "--yes", "--quarantine")
    assert "first applied with --no-quarantine" in error["message"]


def test_gc_sets_aside_as_well(cli: CommandLine, planned: Any, location: Path) -> None:
    assert planned["candidates"] == 7
    options = ("--min-age", "0", "--keep-last", "1", "--quarantine", "--json")
    [one] = cli.ok("gc", "sales", *options).json["stores"]
    assert one["state"] == "done"
    assert in_quarantine(location) == 7
    assert cli.ok("undo", one["run"], "--json").json["objects"] == 7


def test_a_window_is_shortened_only_when_asked(cli: CommandLine, planned: Any) -> None:
    def until(*options: str) -> str:
        apply = ("apply", planned["plan"], "--yes", "--quarantine", *options, "--json")
        return str(cli.ok(*apply).json["until"])

    first = until("--keep", "14d")
    assert until() == first
    assert until("--keep", "1d") < first
