"""Expire, runs, undo and leases on the command line."""

from __future__ import annotations

from pathlib import Path

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


def test_expire_plans_applies_and_is_undone(cli: CommandLine, history: list[str]) -> None:
    before = messages(cli)
    planned = cli.ok("expire", "sales", "--keep-last", "2", "--plan", "--json").json
    assert planned["applied"] is False
    assert messages(cli) == before
    kept = [one["commit"] for one in planned["decisions"] if one["kept"]]
    assert kept[:2] == history[:2]
    assert all(one["reasons"] for one in planned["decisions"])
    done = cli.ok("expire", "sales", "--keep-last", "2", "--json").json
    assert done["applied"] is True
    assert done["reparented"] == planned["reparented"]
    assert messages(cli) == ["commit 4", "commit 3", "Repository created"]
    [run] = cli.ok("runs", "sales", "--json").json["runs"]
    assert (run["id"], run["kind"], run["state"]) == (done["run"], "expire", "done")
    assert "Undid run" in cli.ok("undo", run["id"]).out
    assert messages(cli) == before
    cli.fails("conflict", 4, "undo", run["id"])
    cli.fails("not_found", 3, "undo", "none")


def test_expire_says_what_it_did(cli: CommandLine, history: list[str]) -> None:
    cli.ok("tag", "create", "sales/old", history[3])
    out = cli.ok("expire", "sales", "--keep-last", "1", "--delete-expired-tags", "--plan").out
    assert "expired" in out
    # A tag keeps its own last commit by the same rule.
    assert "other parents" in out
    assert cli.ok("tag", "list", "sales").out
    out = cli.ok("expire", "sales", "--keep-last", "1").out
    assert "reclaim undo" in out
    assert "History stays as it is." in cli.ok("expire", "sales", "--keep-last", "1").out


def test_expire_reads_a_policy(cli: CommandLine, history: list[str], tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("rules:\n  - match: main\n    keep_last: 3\n")
    cli.ok("expire", "sales", "--policy", str(file))
    assert len(messages(cli)) == 4
    file.write_text("rules:\n  - match: main\n    keep_lsat: 3\n")
    error = cli.fails("invalid_input", 2, "expire", "sales", "--policy", str(file))
    assert "rules[0] (main): keep_lsat" in error["message"]
    cli.fails("invalid_input", 2, "expire", "sales", "--policy", str(tmp_path / "absent"))
    file.write_text('{"default": {"keep_last": 1}}')
    cli.fails("invalid_input", 2, "expire", "sales", "--policy", str(file), "--keep-last", "2")
    cli.ok("expire", "sales", "--policy", str(file))
    assert len(messages(cli)) == 2


def test_bad_rules_are_refused(cli: CommandLine, history: list[str]) -> None:
    cli.fails("invalid_input", 2, "expire", "sales")
    error = cli.fails("invalid_input", 2, "expire", "sales", "--older-than", "soon")
    assert "--older-than" in error["message"]
    cli.fails("not_found", 3, "expire", "none", "--keep-last", "1")
    cli.fails("not_found", 3, "expire", "sales", "--keep-last", "1", "--ref", "none")


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
    first = cli.ok("expire", "sales", "--keep-last", "2", "--json").json["run"]
    assert f"Undid run {first}." in cli.ok("undo", first[:6]).out
    assert messages(cli) == before
    kept = cli.ok("expire", "sales", "--keep-last", "3").out
    release = ("lease", "release", "sales", "--holder", f"undo of run {first}")
    assert f"reclaim lease release sales --holder 'undo of run {first}'" in kept
    assert messages(cli) == before
    cli.ok(*release)
    second = cli.ok("expire", "sales", "--keep-last", "3", "--json").json["run"]
    assert f"Undid run {second}." in cli.ok("undo", "latest").out
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
        cli.ok("expire", "sales", "--keep-last", count)
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
