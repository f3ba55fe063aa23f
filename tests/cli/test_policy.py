"""Policies that live with their repositories, on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from reclaim.catalog import Catalog
from reclaim.stores.registry import find
from tests.cli.conftest import CommandLine

POLICY = "# ours\ndefault:\n  keep_last: 2\nrules:\n- match: v*\n  kind: tag\n"
DAMAGED = '{"format": 1, "policy": "default: {keep_last: 5}"}'
NEWER = '{"format": 99}'


@pytest.fixture
def history(cli: CommandLine, catalog: Catalog) -> list[str]:
    """Five commits on main; their ids, newest first."""
    main = catalog.repository("sales").branch("main")
    for number in range(5):
        main.put("a", str(number).encode())
        main.commit(f"commit {number}")
    return [commit.id for commit in catalog.repository("sales").log("main")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    return file


def stored(catalog: Catalog, document: str | None, name: str = "sales") -> None:
    """Put a document in the place of a policy, whatever is in it."""
    store = find(catalog, name)
    store.store_policy(document)


def test_set_get_and_unset(cli: CommandLine, file: Path) -> None:
    cli.fails("not_found", 3, "policy", "get", "sales")
    cli.fails("not_found", 3, "policy", "unset", "sales")
    cli.fails("not_found", 3, "policy", "validate", "sales")
    cli.fails("not_found", 3, "policy", "explain", "sales")
    done = cli.ok("policy", "set", "sales", str(file)).out
    assert "default: keep_last 2" in done
    assert "tag v* matches no ref of sales" in done
    assert cli.ok("policy", "get", "sales").out == POLICY
    got = cli.ok("policy", "get", "sales", "--json").json
    assert got["text"] == POLICY
    assert got["policy"] == {
        "default": {"keep_last": 2},
        "rules": [{"match": "v*", "kind": "tag"}],
    }
    cli.ok("policy", "set", "sales", "-", stdin=b"default: {keep_daily: 7}")
    assert cli.ok("policy", "get", "sales").out == "default: {keep_daily: 7}\n"
    cli.ok("policy", "set", "sales", "--keep-last", "3", "--keep-merge-bases")
    assert cli.ok("policy", "get", "sales", "--json").json["policy"]["default"] == {
        "keep_last": 3,
        "keep_merge_bases": True,
    }
    assert "Removed" in cli.ok("policy", "unset", "sales").out
    cli.fails("not_found", 3, "policy", "get", "sales")


def test_what_is_not_stored(cli: CommandLine, file: Path, tmp_path: Path) -> None:
    cli.fails("invalid_input", 2, "policy", "set", "sales")
    cli.fails("invalid_input", 2, "policy", "set", "sales", "--keep-merge-bases")
    cli.fails("invalid_input", 2, "policy", "set", "sales", str(file), "--keep-last", "1")
    cli.fails("not_found", 3, "policy", "set", "none", str(file))
    file.write_text("default:\n  keep_last: 2\n  keep_last: 3\n")
    error = cli.fails("invalid_input", 2, "policy", "set", "sales", str(file))
    assert f"{file}:3:3: duplicate key keep_last" in error["message"]
    cli.fails("invalid_input", 2, "policy", "set", "sales", str(tmp_path / "none"))
    cli.fails("not_found", 3, "policy", "get", "sales")


def test_an_edit_of_the_history_uses_the_stored_policy(
    cli: CommandLine, history: list[str], file: Path
) -> None:
    cli.fails("invalid_input", 2, "plan", "sales", "--history-only")
    cli.ok("policy", "set", "sales", str(file))
    planned = cli.ok("plan", "sales", "--history-only", "--json").json
    assert planned["policy_source"] == "stored"
    assert (planned["commits"]["going"], planned["commits"]["kept"]) == (3, 3)
    shown = cli.ok("show", planned["plan"], "--all", "--json").json["commits"]["listed"]
    decisions = {one["commit"]: one["decision"] for one in shown}
    assert [decisions[one] == "kept" for one in history] == [True, True, False, False, False, True]
    assert "stored with sales was used" in cli.ok("plan", "sales", "--history-only").out
    given = cli.ok("plan", "sales", "--history-only", "--keep-last", "4", "--json").json
    assert given["policy_source"] == "given"
    assert given["commits"]["kept"] == 5
    cli.fails("invalid_input", 2, "gc", "sales", "--history-only", "--no-policy")
    without = ("gc", "sales", "--history-only", "--no-policy", "--keep-last", "1")
    cli.fails("invalid_input", 2, *without)
    [done] = cli.ok("gc", "sales", "--history-only", "--json").json["stores"]
    assert (done["state"], done["policy_source"], done["released"]) == ("done", "stored", 3)
    assert len(cli.ok("log", "sales", "--json").json["commits"]) == 3


@pytest.mark.usefixtures("plain", "history")
def test_plan_and_gc_use_the_stored_policy(cli: CommandLine, tmp_path: Path) -> None:
    assert cli.ok("plan", "sales", "--json").json["policy_source"] == "none"
    cli.ok("policy", "set", "sales", "--keep-last", "2")
    made = cli.ok("plan", "sales", "--min-age", "0", "--out", str(tmp_path / "p"), "--json").json
    assert (made["policy_source"], made["expired"]) == ("stored", 3)
    assert "stored with sales was used" in cli.ok("show", made["plan"]).out
    given = cli.ok("plan", "sales", "--keep-last", "4", "--json").json
    assert (given["policy_source"], given["expired"]) == ("given", 1)
    without = cli.ok("plan", "sales", "--no-policy", "--json").json
    assert (without["policy_source"], without["expired"]) == ("none", 0)
    cli.ok("repo", "create", "other")
    said = cli.ok("gc", "--all", "--min-age", "0").out.splitlines()
    assert [line.partition(":")[0] for line in said] == ["other", "sales"]
    assert "stored" not in said[0]
    assert said[1].endswith("(by its stored policy)")
    assert len(cli.ok("log", "sales", "--json").json["commits"]) == 3
    [done] = cli.ok("gc", "sales", "--json").json["stores"]
    assert (done["deleted"], done["policy_source"]) == (False, "stored")


@pytest.mark.usefixtures("plain", "history")
@pytest.mark.parametrize(
    ("document", "kind", "code"),
    [(DAMAGED, "corrupt", 8), (NEWER, "unknown_version", 6)],
    ids=["damaged", "newer"],
)
def test_a_policy_that_cannot_be_read_stops_every_run(
    cli: CommandLine, catalog: Catalog, document: str, kind: str, code: int
) -> None:
    stored(catalog, document)
    cli.ok("repo", "create", "other")
    before = cli.ok("log", "sales", "--json").out
    runs = ("plan", "gc", "plan --history-only", "gc --history-only")
    for command in (*runs, "policy get", "policy explain", "policy validate"):
        error = cli.fails(kind, code, *command.split(), "sales")
        assert "stored with sales" in error["message"]
        assert "reclaim policy" in error["hint"]
    assert cli("doctor", "--json").code == code
    done = cli("gc", "--all", "--min-age", "0", "--json")
    assert done.code == code
    states = {one["store"]: one["state"] for one in done.json["stores"]}
    assert (states["sales"], states["other"] == "failed") == ("failed", False)
    assert cli.ok("log", "sales", "--json").out == before
    # Rules that are given do not need it, and it can be replaced or removed.
    cli.ok("plan", "sales", "--no-policy")
    cli.ok("policy", "unset", "sales")
    cli.ok("plan", "sales")


def test_validate(cli: CommandLine, history: list[str], file: Path) -> None:
    valid = cli.ok("policy", "validate", "--policy", str(file)).out
    assert "rules[0] (tag v*): everything stays" in valid
    cli.fails("invalid_input", 2, "policy", "validate")
    cli.fails("invalid_input", 2, "policy", "validate", "--strict", "--policy", str(file))
    checked = cli.ok("policy", "validate", "sales", "--policy", str(file), "--json").json
    assert checked["warnings"] == ["the rule for tag v* matches no ref of sales"]
    cli.ok("policy", "set", "sales", str(file))
    assert "rules of the stored policy match no ref: v*" in cli.ok("doctor").out
    asked = ("policy", "validate", "sales", "--policy", str(file), "--strict")
    error = cli.fails("invalid_input", 2, *asked)
    assert "tag v* matches no ref" in error["message"]
    cli.ok("tag", "create", "sales/v1", history[1])
    cli.ok(*asked)
    cli.ok("policy", "set", "sales", "--keep-last", "1")
    cli.ok("policy", "validate", "sales", "--strict")
    file.write_text("rules:\n  - match: main\n    keep_lsat: 3\n")
    error = cli.fails("invalid_input", 2, "policy", "validate", "--policy", str(file))
    assert "rules[0] (main): keep_lsat" in error["message"]
    file.write_text("{}")
    cli.fails("invalid_input", 2, "policy", "validate", "--policy", str(file))


def test_explain(cli: CommandLine, history: list[str], file: Path) -> None:
    cli.ok("tag", "create", "sales/v1", history[3])
    cli.ok("policy", "set", "sales", str(file))
    said = cli.ok("policy", "explain", "sales").out
    assert "keep the last 2 commits" in said
    assert "no rule: all 3 commits stay" in said
    assert "Today the rules keep 5 of 6 commits.\n1 commit loses its rule." in said
    assert "commit 2" in said
    found = cli.ok("policy", "explain", "sales", "--json").json
    assert [(one["entry"], one["refs"], one["kept"]) for one in found["entries"]] == [
        ("rules[0] (tag v*)", ["v1"], 3),
        ("default", ["main"], 3),
    ]
    # Its root stays without any rule.
    assert found["entries"][1]["rules"] == [{"rule": "keep the last 2 commits", "kept": 2}]
    assert (found["commits"], found["kept"], found["expired"]) == (6, 5, 1)
    one = cli.ok("policy", "explain", "sales", "main", "--json").json
    assert [entry["entry"] for entry in one["entries"]] == ["default"]
    assert (one["commits"], one["kept"], one["entries"][0]["kept"]) == (6, 5, 3)
    gone = [row["commit"] for row in one["decisions"] if row["decision"] == "expired"]
    assert gone == [history[2]]
    said = cli.ok("policy", "explain", "sales", "main").out
    assert "keep the last 2 commits" in said
    assert "Of 6 commits that main reaches, its rules keep 3 today, and other refs keep 2" in said
    cli.fails("not_found", 3, "policy", "explain", "sales", "mian")
    file.write_text("rules:\n  - match: main\n    keep_last: 10\n")
    asked = ("policy", "explain", "sales", "main", "--policy", str(file), "--json")
    given = cli.ok(*asked).json
    assert (given["policy_source"], given["kept"]) == ("given", 6)
    assert given["entries"][0]["rules"][0]["kept"] == 6
