"""Plan, show, apply and gc on the command line: what they say, and what they refuse."""

from __future__ import annotations

import json
import os
import pwd
import re
import socket
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reclaim.catalog import Catalog
from reclaim.cli.running import RunOptions
from reclaim.engine.tasks.deleting import Remove
from reclaim.engine.tasks.parts import open_storage
from reclaim.errors import StorageDenied
from reclaim.ids import short
from reclaim.run.plan import plan_file
from reclaim.storage import ObjectStorage
from tests.cli.conftest import CommandLine

NOW = ("--min-age", "0")


@pytest.fixture
def garbage(cli: CommandLine) -> None:
    """Three commits that replace each other's object, and an upload that was thrown away."""
    for number in range(3):
        cli.ok("put", "-", "sales/main/a", stdin=b"x" * (number + 1))
        cli.ok("commit", "sales/main", "-m", str(number))
    cli.ok("put", "-", "sales/main/wrong", stdin=b"wrong")
    cli.ok("reset", "sales/main")


def data(location: Path) -> set[Path]:
    return {file for file in location.glob("objects/repos/*/branches/**/*") if file.is_file()}


def plan(cli: CommandLine, *args: str) -> Any:
    return cli.ok("plan", "sales", *NOW, *args, "--json").json


def test_the_whole_way_on_spark(cli: CommandLine, garbage: None, location: Path) -> None:
    before = data(location)
    made = plan(cli, "--keep-last", "1")
    assert Path(made["plan"], "plan.json").is_file()
    kinds = dict.fromkeys(("data", "range", "metarange"), 0)
    for group in made["going"]:
        kinds[group["kind"]] += group["objects"]
    assert kinds == {"data": 3, "range": 2, "metarange": 2}
    assert made["candidates"] == 7
    assert made["expected"] == made["read"]
    assert data(location) == before

    shown = cli.ok("show", made["plan"], "--json").json
    assert shown.pop("commits")["going"] == made["dead"]
    assert shown | {"commits": None} == made
    listed = cli.ok("show", made["plan"], "--objects", "--json").json["listed"]
    assert len(listed) == 7
    assert {row["path"] for row in listed} == {"a", "wrong", None}
    assert all(row["reason"] and row["size"] for row in listed)

    done = cli.ok("apply", made["plan"], "--yes", "--json").json
    assert {name: done[name] for name in ("objects", "failed", "dropped", "collected")} == {
        "objects": 7,
        "failed": 0,
        "dropped": 0,
        "collected": 2,
    }
    assert len(data(location)) == 1
    assert cli.ok("get", "sales/main/a", "-").out == "xxx"

    again = cli.ok("apply", made["plan"], "--yes", "--json").json
    assert (again["objects"], again["dropped"]) == (7, 0)
    assert plan(cli)["candidates"] == 0


def test_an_edited_file_is_refused_on_spark(
    cli: CommandLine, garbage: None, location: Path
) -> None:
    before = data(location)
    made = plan(cli)
    [file] = [Path(made["place"]["url"][7:], one["address"]) for one in made["files"]]
    rows = pq.read_table(file)
    pq.write_table(pa.concat_tables([rows, rows]), file)
    error = cli.fails("plan_refused", 6, "apply", made["plan"], "--yes")
    assert "was changed" in error["message"]
    cli.fails("plan_refused", 6, "show", made["plan"], "--objects")
    assert data(location) == before


def test_what_a_person_is_told(cli: CommandLine, garbage: None, plain: None) -> None:
    said = cli.ok("plan", "sales", *NOW, "--keep-last", "1").out
    for words in (
        "Of ",
        "its commits expire under the policy",
        "uploaded, and in no commit",
        "metarange",
        "main  /",
        "under 1 d",
        "Largest objects:",
        "Kept, by reason:",
        "Policy: default: keep_last 1",
        "expected  read",
        "Every reference is a row of one database",
    ):
        assert words in said, words
    last = said.splitlines()[-1]
    assert last.startswith("To edit the history and delete them: reclaim apply ")
    shares = r"7 would go \(.* KiB\): \d+% of the bytes, \d+% of the objects\."
    assert re.search(rf"Of \d+ objects \(.* KiB\) {shares}", said)
    where = last.rsplit(" ", 1)[-1]
    again = cli.ok("show", where).out
    assert set(said.splitlines()) <= set(again.splitlines())
    assert len(cli.ok("show", where, "--objects", "--no-header").out.splitlines()) == 7
    assert len(cli.ok("show", where, "--objects", "--limit", "2").out.splitlines()) == 3
    digest = cli.ok("show", where, "--json").json["digest"]
    assert f"Digest: {digest}" in said
    cli.fails("plan_refused", 6, "apply", where, "--digest", "0" * 64, "--yes")
    cli.fails("invalid_input", 2, "apply", where, "--digest", digest[:15], "--yes")
    cli.ok("repo", "create", "another")
    cli.fails("not_found", 3, "apply", where, "--store", "another", "--yes")
    folder = cli.ok("show", where, "--json").json["plan"]
    cli.fails("plan_refused", 6, "apply", folder, "--store", "another", "--yes")
    applied = cli.ok("apply", where, "--store", "sales", "--digest", digest[:16], "--yes").out
    assert "deleted 7 objects" in applied
    assert "deleted 7 objects" in cli.ok("apply", where, "--yes").out
    assert "no need to apply it" in cli.ok("plan", "sales", *NOW).out
    assert "deleted 7 objects" in cli.ok("runs", "sales").out


def test_a_young_object_stays(cli: CommandLine, garbage: None, plain: None) -> None:
    made = cli.ok("plan", "sales", "--keep-last", "1", "--json").json
    assert made["candidates"] == 0
    assert "too young" in {group["reason"] for group in made["staying"]}


def test_a_store_whose_garbage_is_too_young_says_from_when_it_may_go(
    cli: CommandLine, garbage: None, plain: None
) -> None:
    made = cli.ok("plan", "sales", "--json").json
    young = made["too_young"]
    assert (young["objects"], young["snapshots"]) == (1, 0)
    assert young["first_at"] == young["all_at"]
    margin = datetime.fromisoformat(young["first_at"]) - datetime.fromisoformat(made["started_at"])
    assert timedelta(hours=23) < margin <= timedelta(hours=24)
    said = cli.ok("plan", "sales").out
    from_then = f"{datetime.fromisoformat(young['first_at']):%Y-%m-%d %H:%M:%S} UTC"
    waits = f"that nothing refers to is too young, and may go from {from_then}"
    assert waits in " ".join(said.split())
    assert "nothing would go yet" in said
    assert f"sales: nothing to collect yet: 1 object ({young['bytes']} B) {waits}" in " ".join(
        cli.ok("gc", "sales").out.split()
    )
    assert cli.ok("gc", "sales", "--json").json["stores"][0]["too_young"] == young
    # What runs leave of themselves is young as well, and nobody waits for that.
    cli.ok("gc", "sales", *NOW)
    assert cli.ok("plan", "sales", "--json").json["too_young"] is None


def test_what_a_setting_lets_an_apply_do_is_said(
    cli: CommandLine, garbage: None, plain: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "To delete them: reclaim apply" in cli.ok("plan", "sales", *NOW).out
    monkeypatch.setenv("RECLAIM_QUARANTINE", "true")
    assert "To move them to quarantine: reclaim apply" in cli.ok("plan", "sales", *NOW).out


def test_a_place_and_an_inventory(
    cli: CommandLine, garbage: None, location: Path, tmp_path: Path, plain: None
) -> None:
    listed = list(ObjectStorage.open((location / "objects").as_uri()).list())
    table = pa.table(
        {
            "key": [stored.address for stored in listed],
            "size": [stored.size for stored in listed],
            "last_modified": [stored.last_modified for stored in listed],
        }
    )
    file, out = tmp_path / "inventory.parquet", tmp_path / "my plans"
    pq.write_table(table, file)
    made = plan(cli, "--inventory", str(file), "--out", str(out))
    assert (made["plan"], made["inventory"]) == (str(out), str(file))
    assert made["candidates"] == 1
    cli.fails("already_exists", 4, "plan", "sales", *NOW, "--out", str(out))
    assert cli.ok("apply", str(out / "plan.json"), "--yes", "--json").json["objects"] == 1


def test_bad_calls(cli: CommandLine, garbage: None, location: Path, tmp_path: Path) -> None:
    cli.fails("not_found", 3, "plan", "none")
    cli.fails("not_found", 3, "gc", "none")
    cli.fails("not_found", 3, "show", str(tmp_path / "none"))
    cli.fails("not_found", 3, "apply", str(tmp_path), "--yes")
    cli.fails("not_found", 3, "plan", "sales", "--inventory", str(tmp_path / "none"))
    error = cli.fails("invalid_input", 2, "plan", "sales", "--min-age", "old")
    assert "--min-age" in error["message"]
    inside = next(location.glob("objects/repos/*")) / "branches"
    cli.fails("invalid_input", 2, "plan", "sales", "--out", str(inside))
    cli.fails("usage", 2, "plan", "sales", "--unsafe-allow-fraction", "2")
    cli.fails("invalid_input", 2, "gc")
    cli.fails("invalid_input", 2, "gc", "sales", "--all")
    cli.fails("invalid_input", 2, "gc", "--all", "--out", str(tmp_path / "x"))


def test_an_apply_is_confirmed(
    cli: CommandLine, garbage: None, location: Path, plain: None
) -> None:
    made, before = plan(cli), data(location)
    error = cli.fails("refused", 6, "apply", made["plan"])
    assert "1 object (5 B) of sales" in error["message"]
    assert data(location) == before


def test_a_plan_does_not_say_what_its_store_is_called(
    cli: CommandLine, garbage: None, location: Path, tmp_path: Path, plain: None
) -> None:
    """Who wrote it could name one that nobody would miss."""
    out = tmp_path / "out"
    cli.ok("plan", "sales", "--out", str(out))
    storage = open_storage(out.as_uri())
    place, made = plan_file.find(storage, str(out))
    store = made.store.model_copy(update={"name": "scratch"})
    plan_file.write(storage, place, made.model_copy(update={"run": "f" * 32, "store": store}))
    error = cli.fails("refused", 6, "apply", str(out))
    assert "of sales" in error["message"]
    assert cli.ok("apply", str(out), "--yes", "--json").json["store"] == "sales"


def test_an_edited_plan_is_refused(
    cli: CommandLine, garbage: None, location: Path, plain: None
) -> None:
    made, before = plan(cli), data(location)
    file = Path(made["plan"], "plan.json")
    body = json.loads(file.read_text())
    file.write_text(json.dumps({**body, "candidates": 0}))
    cli.fails("plan_refused", 6, "apply", made["plan"], "--yes")
    cli.fails("plan_refused", 6, "show", made["plan"])
    file.write_text("{")
    cli.fails("plan_refused", 6, "apply", made["plan"], "--yes")
    assert data(location) == before


def test_a_plan_of_another_catalog_is_refused(
    cli: CommandLine, garbage: None, location: Path, tmp_path: Path, plain: None
) -> None:
    made, before = plan(cli), data(location)
    other = str(tmp_path / "other")
    cli.ok("init", other)
    cli.ok("repo", "create", "sales", "--catalog", other)
    error = cli.fails("plan_refused", 6, "apply", made["plan"], "--yes", "--catalog", other)
    assert "this catalog does not have" in error["message"]
    assert data(location) == before


def test_too_large_a_part_is_refused(cli: CommandLine, location: Path, plain: None) -> None:
    for number in range(40):
        cli.ok("put", "-", f"sales/main/{number}", stdin=b"x")
    cli.ok("reset", "sales/main")
    cli.fails("too_much", 6, "plan", "sales", *NOW)
    cli.fails("too_much", 6, "gc", "sales", *NOW)
    assert len(data(location)) == 40
    allowed = ("--unsafe-allow-fraction", "1")
    assert plan(cli, *allowed)["candidates"] == 40


def test_some_that_cannot_be_deleted(
    cli: CommandLine,
    garbage: None,
    location: Path,
    plain: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise StorageDenied("not allowed")

    made = plan(cli)
    with monkeypatch.context() as broken:
        broken.setattr(Remove, "page", fail)
        broken.setattr(Remove, "take_one", fail)
        error = cli.fails("partial", 7, "apply", made["plan"], "--yes")
        assert error["details"]["failed"] == 1
        assert "partial" in cli.ok("runs", "sales").out
        assert "is unfinished (partial)" in cli.ok("doctor").out
    assert cli.ok("apply", made["plan"], "--yes", "--json").json["objects"] == 1


def test_gc(cli: CommandLine, garbage: None, location: Path, plain: None) -> None:
    assert "sales: deleted 7 objects" in cli.ok("gc", "sales", *NOW, "--keep-last", "1").out
    assert len(data(location)) == 1
    assert cli.ok("gc", "sales", *NOW).out == "sales: nothing to collect\n"
    [one] = cli.ok("gc", "--all", *NOW, "--json").json["stores"]
    assert (one["store"], one["state"], one["deleted"]) == ("sales", "nothing", False)
    # A run that found nothing is a run, so that one sees that the collector works.
    assert cli.ok("runs").out.count("nothing to collect") == 2


def test_gc_takes_what_a_deleted_repository_left(
    cli: CommandLine, garbage: None, location: Path, plain: None
) -> None:
    cli.ok("repo", "delete", "sales", "--yes")
    [one] = cli.ok("gc", "--all", *NOW, "--json").json["stores"]
    assert (one["store"], one["state"], one["deleted"]) == ("sales", "done", True)
    assert not data(location)
    assert not list(location.glob("objects/repos/*/_reclaim/meta/*/*"))
    said = cli.ok("gc", "--all", *NOW).out
    assert said == f"sales ({one['uid']}, deleted): nothing to collect\n"
    assert short(one["run"]) in cli.ok("runs").out


def test_gc_of_all_goes_on_after_a_failure(
    cli: CommandLine, garbage: None, location: Path, plain: None
) -> None:
    for file in location.glob("objects/repos/*/_reclaim/meta/*/*"):
        file.unlink()
    before = data(location)
    cli.ok("repo", "create", "zoo")
    result = cli("gc", "--all", *NOW)
    assert (result.code, result.err) == (8, "")
    first, second = result.out.splitlines()
    assert first.startswith("sales: failed: ")
    assert "nothing to collect" not in first
    assert second == "zoo: nothing to collect"
    found = cli("gc", "--all", *NOW, "--json")
    assert found.code == 8
    assert found.json["stores"][0]["error"]["kind"] == "corrupt"
    assert cli("gc", "sales", *NOW).out == ""
    cli.fails("corrupt", 8, "gc", "sales", *NOW)
    assert data(location) == before


def test_a_scheduler_gets_a_line_for_each_stage(
    cli: CommandLine, garbage: None, plain: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged = cli("gc", "sales", *NOW, "-v").err
    [line] = [line for line in logged.splitlines() if "stage=list" in line]
    assert " INFO reclaim.run run=" in line
    assert "seconds=" in line
    assert "objects=" in line
    assert "stage=sweep-data" in logged
    monkeypatch.setenv("RECLAIM_LOG", "info")
    assert "stage=list" in cli("gc", "sales", *NOW).err
    monkeypatch.setenv("RECLAIM_LOG", "loud")
    cli.fails("invalid_input", 2, "gc", "sales")
    monkeypatch.delenv("RECLAIM_LOG")
    assert cli.ok("gc", "sales", *NOW).err == ""


def test_a_branch_that_comes_later_is_seen(
    cli: CommandLine, garbage: None, catalog: Catalog, plain: None
) -> None:
    made = plan(cli, "--keep-last", "1")
    old = catalog.repository("sales").log("main")[1]
    cli.ok("branch", "create", "sales/kept", "--from", old.id)
    done = cli.ok("apply", made["plan"], "--yes", "--json").json
    assert done["dropped"] > 0
    assert cli.ok("get", "sales/kept/a", "-").out == "xx"


def test_a_plan_that_is_empty_or_was_applied_starts_no_engine(
    cli: CommandLine, plain: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        cli.ok("put", "-", "sales/main/a", stdin=b"x" * (number + 1))
        cli.ok("commit", "sales/main", "-m", str(number))
    allowed = ("--min-age", "0", "--unsafe-allow-fraction", "1", "--keep-last", "1", "--json")
    full = cli.ok("plan", "sales", *allowed).json
    done = cli.ok("apply", full["plan"], "--yes", "--json").json
    assert done["objects"] == full["candidates"] > 0
    assert (done["already_applied"], done["finished_at"]) == (False, None)
    empty = cli.ok("plan", "sales", *allowed).json
    assert empty["candidates"] == 0

    def no_engine(*_: object) -> None:
        raise AssertionError("an engine was asked for")

    monkeypatch.setattr(RunOptions, "_engine", no_engine)
    said = cli.ok("apply", full["plan"]).out
    assert f"was already applied by run {short(full['run'])} at" in said
    assert "Nothing was changed now" in said
    again = cli.ok("apply", full["plan"], "--json").json
    assert again["finished_at"]
    assert again | {"already_applied": False, "finished_at": None} == done
    assert "the plan is empty; nothing was changed" in cli.ok("apply", empty["plan"]).out
    recorded = {run["id"]: run["state"] for run in cli.ok("runs", "--json").json["runs"]}
    assert recorded[empty["run"]] == "done"


def test_runs_and_journals_tell_who_ran_them(
    cli: CommandLine, plain: None, location: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        cli.ok("put", "-", "sales/main/some/path", stdin=b"x" * (number + 1))
        cli.ok("commit", "sales/main", "-m", str(number))
    allowed = ("--min-age", "0", "--unsafe-allow-fraction", "1", "--keep-last", "1", "--json")
    plan = cli.ok("plan", "sales", *allowed).json["plan"]
    secrets = ["reclaim", "--catalog=postgresql://me:pass@host/db", "--remote", "sc://h;token=pass"]
    monkeypatch.setattr(sys, "argv", secrets)
    cli.ok("apply", plan, "--yes", "--quarantine")
    [run] = cli.ok("runs", "--json").json["runs"]
    [operator] = run["operators"]
    assert operator["user"] == pwd.getpwuid(os.geteuid()).pw_name
    assert operator["host"] == socket.gethostname()
    assert operator["command"] == (
        "reclaim '--catalog=postgresql://me:***@host/db' --remote 'sc://h;***'"
    )
    [journal] = Path(plan).glob("apply/*/journal.json")
    listed = json.loads(journal.read_text())
    assert listed["operator"] == operator
    paths = {
        row["path"]
        for file in listed["files"]
        for row in pq.read_table(location / "objects" / file["address"]).to_pylist()
    }
    assert "some/path" in paths
    monkeypatch.setattr(sys, "argv", ["reclaim", "undo", run["id"]])
    cli.ok("undo", run["id"])
    [undone] = cli.ok("runs", "--json").json["runs"]
    commands = [one["command"] for one in undone["operators"]]
    assert commands == [operator["command"], f"reclaim undo {run['id']}"]
