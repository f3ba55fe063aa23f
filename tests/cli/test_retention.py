"""Edits of the history, runs, undo and leases on the command line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from reclaim.catalog import Catalog, RefReader
from tests.cli.conftest import CommandLine


@pytest.fixture
def history(cli: CommandLine, catalog: Catalog) -> list[str]:
    """Five commits on main; their ids, newest first."""
    main = catalog.repository("sales").branch("main")
    for number in range(5):
        main.put("a", str(number).encode())
        main.commit(f"commit {number}")
    return [commit.id for commit in catalog.repository("sales").log("main")]


def messages(cli: CommandLine) -> list[str]:
    return [commit["message"] for commit in cli.ok("log", "sales", "--json").json["commits"]]


def edit(cli: CommandLine, *rules: str) -> Any:
    [done] = cli.ok("gc", "sales", "--history-only", *rules, "--json").json["stores"]
    return done


def test_history_is_planned_edited_and_brought_back(cli: CommandLine, history: list[str]) -> None:
    before = messages(cli)
    planned = cli.ok("plan", "sales", "--history-only", "--keep-last", "2", "--json").json
    assert messages(cli) == before
    assert {one["commit"] for one in planned["commits"]["listed"]} == set(history[2:-1])
    assert all(one["decision"] == "expired" for one in planned["commits"]["listed"])
    shown = cli.ok("show", planned["plan"], "--all", "--json").json["commits"]["listed"]
    assert all(one["reasons"] for one in shown)
    kept = [one["commit"] for one in shown if one["decision"] == "kept"]
    assert set(kept) == {*history[:2], history[-1]}
    done = cli.ok("apply", planned["plan"], "--yes", "--json").json
    assert done["run"] == planned["run"]
    assert done["reparented"] == planned["history"]["reparented"] == 1
    assert (done["released"], done["objects"], done["condemned"]) == (3, 0, 0)
    assert messages(cli) == ["commit 4", "commit 3", "Repository created"]
    [run] = cli.ok("runs", "sales", "--json").json["runs"]
    assert (run["id"], run["kind"], run["state"]) == (done["run"], "expire", "done")
    again = cli.ok("apply", planned["plan"], "--yes", "--json").json
    assert again["already_applied"]
    assert "Undid run" in cli.ok("undo", run["id"]).out
    assert messages(cli) == before
    cli.fails("conflict", 4, "undo", run["id"])
    cli.fails("not_found", 3, "undo", "none")


def test_in_one_go_it_does_the_same(cli: CommandLine, history: list[str]) -> None:
    done = edit(cli, "--keep-last", "2")
    assert (done["state"], done["reparented"], done["released"]) == ("done", 1, 3)
    assert messages(cli) == ["commit 4", "commit 3", "Repository created"]
    [run] = cli.ok("runs", "sales", "--json").json["runs"]
    assert (run["id"], run["kind"], run["state"]) == (done["run"], "expire", "done")


def test_it_says_what_it_does(cli: CommandLine, history: list[str]) -> None:
    cli.ok("tag", "create", "sales/old", history[3])
    rules = ("--history-only", "--keep-last", "1")
    out = cli.ok("plan", "sales", *rules, "--delete-expired-tags").out
    assert "no bytes would be deleted" in out
    assert re.search("^commit +written \\(UTC\\) +message", out, re.MULTILINE)
    # A tag keeps its own last commit by the same rule.
    assert "re-links" in out
    assert "To edit the history: reclaim apply " in out
    assert cli.ok("tag", "list", "sales").out
    out = cli.ok("gc", "sales", *rules).out
    assert out.startswith("sales: edited the history (")
    assert re.search("^commit +written \\(UTC\\) +message", out, re.MULTILINE)
    assert "Kept, by main reason (3 commits; reclaim show " in out
    assert "No bytes were deleted. To undo the edit: reclaim undo " in out
    assert "sales: the history stays as it is" in cli.ok("gc", "sales", *rules).out
    assert "The history stays as it is." in cli.ok("plan", "sales", *rules).out


def test_a_plan_of_it_takes_no_options_of_deletions(
    cli: CommandLine, history: list[str], tmp_path: Path
) -> None:
    out = str(tmp_path / "plan")
    cli.ok("plan", "sales", "--history-only", "--keep-last", "2", "--out", out)
    for option in (("--quarantine",), ("--max-objects", "1"), ("--exclude", "a")):
        error = cli.fails("invalid_input", 2, "apply", out, "--yes", *option)
        assert error["message"] == f"{option[0]} is not valid for a --history-only plan"
    error = cli.fails("refused", 6, "apply", out)
    assert "edit the history of sales, without deleting anything" in error["message"]


def test_only_what_some_refs_reach(cli: CommandLine, history: list[str]) -> None:
    cli.ok("branch", "create", "sales/dev", "--from", "main~2")
    cli.ok("branch", "create", "sales/other", "--from", "main")
    rules = ("--history-only", "--keep-last", "1", "--ref", "dev")
    made = cli.ok("plan", "sales", *rules, "--json").json
    assert list(made["history_only"]["refs"]) == ["dev"]
    assert "An edit of the history below dev: no bytes" in cli.ok("show", made["plan"]).out
    going = {one["commit"] for one in made["commits"]["listed"]}
    assert going == set(history[3:-1])
    assert edit(cli, *rules[1:])["released"] == len(going)


def test_all_repositories_by_their_stored_policies(
    cli: CommandLine, history: list[str], plain: None
) -> None:
    cli.ok("repo", "create", "plain")
    cli.ok("repo", "create", "gone")
    cli.ok("put", "-", "gone/main/a", stdin=b"a")
    cli.ok("repo", "delete", "gone", "--yes")
    cli.ok("policy", "set", "sales", "--keep-last", "2")
    every = cli.ok("gc", "--all", "--history-only", "--json").json
    assert every["kind"] == "history-only"
    done = {row["store"]: row for row in every["stores"]}
    assert {name: row["state"] for name, row in done.items()} == {
        "gone": "nothing",
        "plain": "nothing",
        "sales": "done",
    }
    assert done["plain"]["warnings"] == ["no retention policy is stored"]
    assert done["sales"]["released"] == 3
    said = cli.ok("gc", "--all", "--history-only").out
    assert "plain: no retention policy is stored" in said
    assert "sales: the history stays as it is" in said


def test_it_reads_a_policy(cli: CommandLine, history: list[str], tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("rules:\n  - match: main\n    keep_last: 3\n")
    cli.ok("gc", "sales", "--history-only", "--policy", str(file))
    assert len(messages(cli)) == 4
    file.write_text("rules:\n  - match: main\n    keep_lsat: 3\n")
    error = cli.fails("invalid_input", 2, "gc", "sales", "--history-only", "--policy", str(file))
    assert "rules[0] (main): keep_lsat" in error["message"]
    absent = ("--policy", str(tmp_path / "absent"))
    cli.fails("invalid_input", 2, "gc", "sales", "--history-only", *absent)
    file.write_text('{"default": {"keep_last": 1}}')
    both = ("--policy", str(file), "--keep-last", "2")
    cli.fails("invalid_input", 2, "gc", "sales", "--history-only", *both)
    cli.ok("gc", "sales", "--history-only", "--policy", str(file))
    assert len(messages(cli)) == 2


def test_bad_rules_are_refused(cli: CommandLine, history: list[str]) -> None:
    cli.fails("invalid_input", 2, "gc", "sales", "--history-only")
    error = cli.fails("invalid_input", 2, "gc", "sales", "--history-only", "--older-than", "soon")
    assert "--older-than" in error["message"]
    cli.fails("not_found", 3, "gc", "none", "--history-only", "--keep-last", "1")
    cli.fails("not_found", 3, "gc", "sales", "--history-only", "--keep-last", "1", "--ref", "none")


def test_leases(cli: CommandLine, history: list[str]) -> None:
    asked = ("lease", "hold", "sales/main~1", "--for", "90min", "--holder", "nightly", "--json")
    held = cli.ok(*asked).json
    assert (held["commit"], held["holder"]) == (history[1], "nightly")
    [listed] = cli.ok("lease", "list", "sales", "--json").json["leases"]
    assert (listed["id"], listed["valid"]) == (held["id"], True)
    assert "nightly" in cli.ok("lease", "list", "sales").out
    assert "Released" in cli.ok("lease", "release", "sales", held["id"]).out
    cli.fails("not_found", 3, "lease", "release", "sales", held["id"])
    assert cli.ok("lease", "list", "sales", "--json").json["leases"] == []
    cli.fails("invalid_input", 2, "lease", "hold", "sales/main", "--for", "1mo")
    cli.fails("invalid_input", 2, "lease", "hold", "sales/main", "--for", "long")
    cli.fails("not_found", 3, "lease", "hold", "sales/none")


def test_leases_of_a_holder_and_all(cli: CommandLine, history: list[str]) -> None:
    def held() -> list[str]:
        return [one["holder"] for one in cli.ok("lease", "list", "sales", "--json").json["leases"]]

    for ref in ("main", "main~1"):
        cli.ok("lease", "hold", f"sales/{ref}", "--holder", "nightly")
        cli.ok("lease", "hold", f"sales/{ref}", "--holder", "reports")
    done = cli.ok("lease", "release", "sales", "--holder", "nightly", "--json").json
    assert len(done["released"]) == 2
    assert held() == ["reports", "reports"]
    assert "Released 0 leases." in cli.ok("lease", "release", "sales", "--holder", "nightly").out
    error = cli.fails("refused", 6, "lease", "release", "sales", "--all")
    assert "release 2 leases of sales without confirmation" in error["message"]
    assert held() == ["reports", "reports"]
    assert "Released 2 leases." in cli.ok("lease", "release", "sales", "--all", "--yes").out
    assert held() == []
    assert cli.ok("lease", "release", "sales", "--all", "--json").json == {"released": []}
    cli.fails("invalid_input", 2, "lease", "release", "sales")
    cli.fails("invalid_input", 2, "lease", "release", "sales", "--all", "--holder", "nightly")


def test_short_names_of_runs(cli: CommandLine, history: list[str]) -> None:
    before = messages(cli)
    first = edit(cli, "--keep-last", "2")["run"]
    assert f"Undid run {first[:12]}." in cli.ok("undo", first[:6]).out
    assert messages(cli) == before
    kept = cli.ok("gc", "sales", "--history-only", "--keep-last", "3").out
    release = ("lease", "release", "sales", "--holder", f"undo of run {first}")
    assert f"reclaim lease release sales --holder 'undo of run {first}'" in kept
    assert messages(cli) == before
    cli.ok(*release)
    second = edit(cli, "--keep-last", "3")["run"]
    assert f"Undid run {second[:12]}." in cli.ok("undo", "latest").out
    cli.fails("conflict", 4, "undo", "latest")
    for name in ("0" * 8, first[:2], "newest"):
        assert "--store" in cli.fails("not_found", 3, "undo", name)["hint"]
    cli.ok("repo", "create", "zoo")
    cli.fails("not_found", 3, "undo", "latest", "--store", "zoo")


def test_a_name_that_fits_several_runs_undoes_none(
    cli: CommandLine, history: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = messages(cli)
    ids = iter(f"abcd{number:028x}" for number in range(9))
    monkeypatch.setattr("reclaim.run.plan.history_only.new_run_id", lambda _: next(ids))
    for count in ("3", "2"):
        cli.ok("gc", "sales", "--history-only", "--keep-last", count)
    after = messages(cli)
    error = cli.fails("invalid_input", 2, "undo", "abcd")
    assert len(error["details"]["runs"]) == 2
    assert "expire of sales" in error["message"]
    assert messages(cli) == after != before


def test_a_folder_is_held_while_it_is_downloaded(
    cli: CommandLine,
    history: list[str],
    catalog: Catalog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from reclaim.cli.commands import get

    held: list[str] = []
    below = get._get_below

    def watched(
        reader: RefReader, path: str, root: Path, relative: str, *, verify: bool
    ) -> tuple[int, bool]:
        held.extend(lease.snapshot for lease, _ in catalog.repository("sales").leases())
        return below(reader, path, root, relative, verify=verify)

    monkeypatch.setattr(get, "_get_below", watched)
    cli.ok("get", "-r", "sales/main~2", str(tmp_path / "got"))
    assert held == [history[2]]
    assert catalog.repository("sales").leases() == []
