"""Reviewing a plan: its commits, its objects in a file, and what is left out of it."""

from __future__ import annotations

import csv
import io
import json
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from reclaim.catalog import Catalog
from tests.cli.conftest import CommandLine

pytestmark = pytest.mark.usefixtures("plain")

NOW = ("--min-age", "0", "--keep-last", "2")


@pytest.fixture
def history(cli: CommandLine, location: Path) -> list[str]:
    """Six commits on main, four of which bring a file of their own, and a tag; newest first."""
    # Closed at the end: what it wrote is in no open partition any more.
    with Catalog.open(location) as catalog:
        repo = catalog.repository("sales")
        main = repo.branch("main")
        for number in range(5):
            main.put(f"raw/{number}.csv", str(number).encode())
            main.put("a", b"x" * number)
            main.commit(f"commit {number}\nmore of it")
            if number:
                main.delete(f"raw/{number}.csv")
        repo.create_tag("v1", main.commit("last").id)
        return [commit.id for commit in repo.log("main")]


def planned(cli: CommandLine, out: Path) -> Any:
    return cli.ok("plan", "sales", *NOW, "--out", str(out), "--json").json


def test_expired_commits_come_first_and_the_others_are_counted(
    cli: CommandLine, history: list[str]
) -> None:
    said = cli.ok("plan", "sales", "--history-only", "--keep-last", "2").out.splitlines()
    assert "Expired (4 commits): not among the last 2 on branch main, tag v1" in said
    rows = said[next(n for n, line in enumerate(said) if line.startswith("commit  ")) + 1 :][:4]
    assert [row.split()[0] for row in rows] == [one[:12] for one in history[2:-1]]
    assert said.index(rows[-1]) < next(n for n, line in enumerate(said) if "Kept" in line)
    date, time = rows[0].split()[1:3]
    datetime.fromisoformat(f"{date} {time}")
    assert len(time) == len("00:00")
    assert "commit 3" in rows[0]
    assert "more of it" not in rows[0]
    assert not any(one[:12] in line for line in said for one in history[:2])
    assert any("2  branch main, tag v1: keep_last 2" in line for line in said)
    made = cli.ok("plan", "sales", "--history-only", "--keep-last", "2", "--json").json
    assert any("reclaim show " in line and "--all lists" in line for line in said)
    whole = cli.ok("show", made["plan"], "--all").out
    assert "\nKept (3 commits):\n" in whole
    assert "main, v1" in whole or "v1, main" in whole


def test_one_main_reason_unless_all_are_asked_for(cli: CommandLine, history: list[str]) -> None:
    rules = ("--keep-last", "2", "--keep-yearly", "1")
    made = cli.ok("plan", "sales", "--history-only", *rules, "--json").json
    tip = next(
        line for line in cli.ok("show", made["plan"], "--all").out.splitlines() if "last " in line
    )
    assert "; " not in tip
    every = cli.ok("show", made["plan"], "--all", "--reasons").out
    assert "; branch main, tag v1: keep_yearly 1" in every


def test_show_lists_what_becomes_of_commits(
    cli: CommandLine, history: list[str], tmp_path: Path
) -> None:
    made = planned(cli, tmp_path / "plan")
    said = cli.ok("show", made["plan"]).out
    for commit in history[2:-1]:
        assert commit[:12] in said
    assert history[0][:12] not in said
    assert "commit 2" in said
    assert history[0][:12] in cli.ok("show", made["plan"], "--all").out
    found = cli.ok("show", made["plan"], "--json").json["commits"]
    assert (found["going"], found["kept"]) == (4, 3)
    first = found["listed"][0]
    assert (first["commit"], first["decision"]) == (history[2], "expired")
    assert first["message"] == "commit 3\nmore of it"
    assert len(cli.ok("show", made["plan"], "--all", "--json").json["commits"]["listed"]) == 7


def test_a_plan_can_be_shown_wherever_it_is(
    cli: CommandLine, history: list[str], tmp_path: Path
) -> None:
    inside = cli.ok("plan", "sales", *NOW, "--json").json
    for number, made in enumerate((planned(cli, tmp_path / "plan"), inside)):
        copy = tmp_path / f"copy {number}"
        shutil.copytree(made["plan"], copy)
        before = cli.ok("show", made["plan"], "--json").json
        assert before.pop("moved_from") is None
        shutil.rmtree(made["plan"])
        found = cli.ok("show", str(copy), "--json").json
        assert (found.pop("moved_from"), found.pop("plan")) == (before.pop("plan"), str(copy))
        assert found == before
        assert "applied only there" in cli.ok("show", str(copy / "plan.json")).out
        listed = cli.ok("show", str(copy), "--objects", "--json").json["listed"]
        assert len(listed) == made["candidates"]
        error = cli.fails("plan_refused", 6, "apply", str(copy), "--yes")
        assert "moved from there" in error["message"]
        # It is as it was written, or it is not shown.
        (copy / "snapshots.parquet").write_bytes(b"")
        cli.fails("plan_refused", 6, "show", str(copy))
        (copy / "snapshots.parquet").unlink()
        assert "is not here" in cli.ok("show", str(copy)).out
        assert cli.ok("show", str(copy), "--json").json["commits"]["listed"] is None


def test_objects_in_a_file(cli: CommandLine, history: list[str], tmp_path: Path) -> None:
    made = planned(cli, tmp_path / "plan")
    listed = cli.ok("show", made["plan"], "--objects", "--json").json["listed"]
    table, sheet = tmp_path / "o.parquet", tmp_path / "o.csv"
    done = cli.ok("show", made["plan"], "--parquet", str(table), "--json").json
    assert (done["objects"], done["format"]) == (made["candidates"], "parquet")
    names = ["address", "path", "size", "last_modified", "kind", "branch", "reason"]
    rows = pq.read_table(table)
    assert rows.column_names == names
    assert [row["address"] for row in rows.to_pylist()] == [row["address"] for row in listed]
    assert sum(row["size"] for row in rows.to_pylist()) == made["candidate_bytes"]
    assert "Wrote" in cli.ok("show", made["plan"], "--csv", str(sheet)).out
    text = cli.ok("show", made["plan"], "--csv", "-").out
    assert sheet.read_text() == text
    read = list(csv.DictReader(io.StringIO(text)))
    assert list(read[0]) == names
    assert [row["address"] for row in read] == [row["address"] for row in listed]
    assert {row["path"] for row in read if row["path"]} == {row["path"] for row in listed} - {None}
    assert "." not in read[0]["last_modified"]
    assert datetime.fromisoformat(read[0]["last_modified"]).tzinfo is not None


def test_what_cannot_be_written(cli: CommandLine, history: list[str], tmp_path: Path) -> None:
    made = planned(cli, tmp_path / "plan")
    target = tmp_path / "o.csv"
    asked = ("show", made["plan"])
    cli.fails("invalid_input", 2, *asked, "--csv", str(target), "--parquet", str(target))
    cli.fails("invalid_input", 2, *asked, "--csv", str(target), "--objects")
    cli.fails("invalid_input", 2, *asked, "--parquet", "-")
    assert cli(*asked, "--csv", "-", "--json").code == 2
    target.write_text("before")
    [file] = made["files"]
    (tmp_path / "plan" / file["address"]).write_bytes(b"changed")
    cli.fails("plan_refused", 6, *asked, "--csv", str(target))
    assert target.read_text() == "before"
    assert {path.name for path in tmp_path.iterdir() if "part" in path.name} == set()


def test_a_plan_without_objects(cli: CommandLine, tmp_path: Path) -> None:
    made = cli.ok("plan", "sales", "--json").json
    assert made["candidates"] == 0
    assert cli.ok("show", made["plan"], "--csv", "-").out.count("\n") == 1
    cli.ok("show", made["plan"], "--parquet", str(tmp_path / "o"))
    assert pq.read_table(tmp_path / "o").num_rows == 0


def test_what_is_left_out_is_told(
    cli: CommandLine, history: list[str], tmp_path: Path, location: Path
) -> None:
    made = planned(cli, tmp_path / "plan")
    asked = ("apply", made["plan"], "--yes")
    cli.fails("plan_refused", 6, *asked, "--exclude", "rwa/*")
    cli.fails("invalid_input", 2, *asked, "--exclude", "")
    assert (
        "except objects matching raw/*"
        in cli.fails("refused", 6, "apply", made["plan"], "--exclude", "raw/*")["message"]
    )
    before = cli.ok("log", "sales", "--json").json
    cli.fails("too_much", 6, *asked, "--max-objects", "3")
    error = cli.fails("too_much", 6, *asked, "--max-bytes", "1KB")
    assert "--max-bytes" in error["message"]
    cli.fails("invalid_input", 2, *asked, "--max-bytes", "much")
    assert cli.ok("log", "sales", "--json").json == before
    said = cli.ok(*asked, "--exclude", "raw/*", "--max-objects", "99", "--max-bytes", "1MiB").out
    assert "Left out 3 objects (3 B) that match raw/*" in said
    [run] = cli.ok("runs", "sales", "--json").json["runs"]
    assert (run["summary"]["exclude"], run["summary"]["excluded"]) == (["raw/*"], 3)
    assert Path(run["summary"]["excluded_list"].removeprefix("file://")).is_dir()
    assert "left out 3 by --exclude raw/*" in cli.ok("runs", "sales").out
    again = cli.ok("plan", "sales", "--min-age", "0", "--json").json
    assert {group["kind"]: group["objects"] for group in again["going"]}["data"] == 3
    done = cli.ok(*asked, "--json").json
    assert (done["excluded"], done["exclude"]) == (0, [])
    assert cli.ok("plan", "sales", "--min-age", "0", "--json").json["candidates"] == 0


def test_gc_refuses_too_much(cli: CommandLine, history: list[str]) -> None:
    before = cli.ok("log", "sales", "--json").json
    error = cli.fails("too_much", 6, "gc", "sales", *NOW, "--max-objects", "3")
    plan = error["hint"].partition("reclaim show ")[2].partition(",")[0]
    assert cli.ok("show", plan, "--json").json["candidates"] == error["details"]["candidates"]
    cli.ok("repo", "create", "other")
    done = cli("gc", "--all", *NOW, "--max-bytes", "1", "--json")
    assert done.code == 6
    found = {one["store"]: one for one in json.loads(done.out)["stores"]}
    assert found["sales"]["error"]["kind"] == "too_much"
    assert found["other"]["error"] is None
    assert cli.ok("log", "sales", "--json").json == before
    assert cli.ok("runs", "sales", "--json").json["runs"] == []
    assert cli.ok("gc", "sales", *NOW, "--max-objects", "100", "--json").code == 0
