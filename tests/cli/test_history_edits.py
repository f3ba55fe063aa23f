"""What people and programs are told of an edit of the history, and how it is taken back."""

from __future__ import annotations

import pytest

from reclaim.catalog import Catalog
from reclaim.ids import short
from tests.cli.conftest import CommandLine

pytestmark = pytest.mark.usefixtures("plain")
RULES = ("--keep-last", "1", "--min-age", "0s")


@pytest.fixture
def log(cli: CommandLine, catalog: Catalog) -> list[str]:
    """Three commits on main and the first one; a lease is on the second newest."""
    main = catalog.repository("sales").branch("main")
    for number in range(3):
        main.put("a", str(number).encode())
        main.commit(f"commit {number}")
    cli.ok("lease", "hold", "sales/main~1", "--for", "1d", "--holder", "a reader")
    return commits(cli)


def commits(cli: CommandLine) -> list[str]:
    return [commit["id"] for commit in cli.ok("log", "sales", "--json").json["commits"]]


def test_a_plan_says_so(cli: CommandLine, log: list[str]) -> None:
    out = cli.ok("plan", "sales", *RULES).out
    assert "2 commits lose their rule.\n" in out
    assert (
        "The edit removes 2 commits from the history and re-links 1 commit. 2 of the removed "
        "stay for now, held by a lease or by a run that can be undone."
    ) in " ".join(out.split())
    assert "To edit the history: reclaim apply" in out
    assert "no need to apply" not in out


def test_the_plan_tells_programs(cli: CommandLine, log: list[str]) -> None:
    planned = cli.ok("plan", "sales", *RULES, "--json").json
    assert planned["history"] == {"reparented": 1, "released": 2, "held": 2}
    assert cli.ok("show", planned["plan"], "--json").json["history"] == planned["history"]
    asked = cli("apply", planned["plan"])
    assert "edit the history" in asked.err


def test_gc_and_runs_say_so_and_it_is_undone(cli: CommandLine, log: list[str]) -> None:
    edited = "edited the history (removed 2 commits from it, re-linked 1 commit)"
    out = cli.ok("gc", "sales", *RULES).out
    assert edited in " ".join(out.split())
    assert commits(cli) == [log[0], log[-1]]
    [run] = cli.ok("runs", "sales", "--json").json["runs"]
    assert (run["summary"]["reparented"], run["summary"]["released"]) == (1, 2)
    assert edited in " ".join(cli.ok("runs", "sales").out.split())
    assert f"Undid run {short(run['id'])}." in cli.ok("undo", run["id"]).out
    assert commits(cli) == log
    assert f"{edited}, undone" in " ".join(cli.ok("runs", "sales").out.split())
    cli.fails("conflict", 4, "undo", run["id"])


def test_what_was_deleted_is_said_by_the_undo(
    cli: CommandLine, catalog: Catalog, log: list[str]
) -> None:
    repo = catalog.repository("sales")
    other = repo.create_branch("other", log[1])
    other.put("b", b"1")
    on_other = other.commit("on the other").id
    main = repo.branch("main")
    main.put("a", b"9")
    main.commit("newest")
    [done] = cli.ok("gc", "sales", *RULES, "--json").json["stores"]
    assert (done["condemned"], done["reparented"], done["released"]) == (1, 2, 3)
    out = " ".join(cli.ok("undo", done["run"]).out.split())
    assert "Deleted for good:" in out
    assert f"{log[0]} is gone" in out
    assert [commit.id for commit in repo.log("other")] == [on_other, *log[1:]]
