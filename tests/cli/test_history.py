"""repo, commit, branch, tag, merge, diff, log, reset, revert and clean."""

from __future__ import annotations

import getpass
from datetime import timedelta
from pathlib import Path

import pytest

from reclaim.catalog import Catalog
from reclaim.catalog.reaping import backlog
from reclaim.cli.commands import reap
from reclaim.cli.options.ages import parse_age
from tests.cli.conftest import CommandLine


def _put(cli: CommandLine, place: str, data: bytes = b"x") -> None:
    cli.ok("put", "-", place, stdin=data)


def _commit(cli: CommandLine, branch: str, **objects: str) -> str:
    """Commit objects given as name=content; returns the commit's id."""
    for path, content in objects.items():
        _put(cli, f"{branch}/{path}", content.encode())
    document = cli.ok("commit", branch, "-m", f"Set {', '.join(objects)}", "--json").json
    return str(document["id"])


def _content(cli: CommandLine, place: str) -> str:
    return cli.ok("get", place, "-").out


# --- init and repo ------------------------------------------------------------------------------


def test_init_here_and_elsewhere(
    bare: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bare.ok("init")
    assert (tmp_path / ".reclaim" / "catalog.db").is_file()
    bare.ok("repo", "create", "here")
    document = bare.ok("init", "named", "--json").json
    assert document["catalog"] == str(tmp_path / "named")
    assert document["storage"] == (tmp_path / "named" / "objects").as_uri()
    bare.ok("--catalog", "optional", "init")
    bare.ok("init", "--catalog", "later")
    monkeypatch.setenv("RECLAIM_CATALOG", "from-environment")
    bare.ok("init")
    assert bare.ok("repo", "list", "--json").json == {"repositories": []}
    assert {"optional", "later", "from-environment"} <= {f.name for f in tmp_path.iterdir()}
    listed = bare.ok("--catalog", "named", "repo", "--json", "list", "--catalog", ".reclaim")
    assert [found["name"] for found in listed.json["repositories"]] == ["here"]


def test_init_with_a_storage(bare: CommandLine, tmp_path: Path) -> None:
    bare.ok("init", str(tmp_path / "one"), "--storage", str(tmp_path / "objects"))
    bare.fails("already_exists", 4, "init", str(tmp_path / "one"))
    bare.fails("invalid_input", 2, "init", "x", "--catalog", "y")
    bare.fails("invalid_input", 2, "init", "postgresql://nowhere/x")
    shared = ("init", str(tmp_path / "two"), "--storage", str(tmp_path / "objects"))
    bare.fails("foreign_storage", 6, *shared)
    nested = ("init", str(tmp_path / "three"), "--storage", str(tmp_path / "objects" / "deep"))
    bare.fails("nested_storage", 6, *nested)


def test_repositories(cli: CommandLine) -> None:
    cli.ok("repo", "create", "other", "--default-branch", "trunk")
    listed = cli.ok("repo", "list", "--json").json["repositories"]
    assert [(repo["name"], repo["default_branch"]) for repo in listed] == [
        ("other", "trunk"),
        ("sales", "main"),
    ]
    assert [
        line.split()[:2] for line in cli.ok("repo", "list", "--no-header").out.splitlines()
    ] == [
        ["other", "trunk"],
        ["sales", "main"],
    ]
    cli.fails("already_exists", 4, "repo", "create", "sales")
    cli.fails("invalid_name", 2, "repo", "create", "Not Good")
    cli.fails("not_found", 3, "repo", "delete", "none", "--yes")


def test_repo_delete_needs_a_yes(cli: CommandLine) -> None:
    assert "--yes" in cli.fails("refused", 6, "repo", "delete", "sales")["hint"]
    cli.ok("log", "sales")
    cli.ok("repo", "delete", "sales", "--yes")
    cli.fails("not_found", 3, "log", "sales")


# --- commit and log -----------------------------------------------------------------------------


def test_commit(cli: CommandLine) -> None:
    _put(cli, "sales/main/a")
    args = ("--meta", "ticket=7", "--json")
    first = cli.ok("commit", "sales/main", "-m", "First", *args).json
    assert (first["message"], first["metadata"]) == ("First", {"ticket": "7"})
    assert first["committer"] == getpass.getuser()
    cli.fails("nothing_to_commit", 10, "commit", "sales/main", "-m", "again")
    asked = ("commit", "sales/main", "-m", "again", "--if-changed")
    stays = cli.ok(*asked, "--json").json
    assert stays["changed"] is False
    assert "nothing to commit on main; it stays at" in cli.ok(*asked).out
    assert cli.ok("log", "sales", "-n", "1", "--json").json["commits"][0]["id"] == stays["id"]
    cli.fails("invalid_input", 2, *asked, "--allow-empty")
    empty = ("commit", "sales/main", "-m", "empty", "--allow-empty", "--committer", "ines")
    second = cli.ok(*empty, "--json").json
    assert (second["parents"], second["committer"]) == ([first["id"]], "ines")
    cli.fails("usage", 2, "commit", "sales/main")
    cli.fails("not_found", 3, "commit", "sales/none", "-m", "x")
    cli.fails("invalid_input", 2, "commit", "sales/main/a", "-m", "x")


def test_log(cli: CommandLine) -> None:
    first = _commit(cli, "sales/main", a="1")
    second = _commit(cli, "sales/main", b="2")
    assert [c["id"] for c in cli.ok("log", "sales", "--json").json["commits"]][:2] == [
        second,
        first,
    ]
    assert len(cli.ok("log", "sales/main", "-n", "1", "--json").json["commits"]) == 1
    lines = cli.ok("log", "sales/main~1", "--oneline", "--no-header").out.splitlines()
    assert lines[0].startswith(first[:12])
    assert lines[0].endswith("Set a")
    assert len(lines) == 2
    said = cli.ok("log", "sales").out
    assert said.startswith(f"commit {second}\n")
    assert said.count("\n    Set ") == 2
    cli.fails("not_found", 3, "log", "sales/none")
    cli.fails("not_found", 3, "log", "sales/main~9")
    cli.fails("invalid_input", 2, "log", "sales/main/path")


def test_a_message_cannot_steer_the_terminal(cli: CommandLine) -> None:
    message = "bad\x1b[2J\rnews"
    cli.ok("commit", "sales/main", "-m", message, "--allow-empty")
    for args in (("log", "sales"), ("log", "sales", "--oneline")):
        said = cli.ok(*args).out
        assert "\x1b" not in said
        assert "\r" not in said
        assert "bad\\x1b[2J\\x0dnews" in said
    commits = cli.ok("log", "sales", "--json").json["commits"]
    assert commits[0]["message"] == message


# --- branch, tag, merge -------------------------------------------------------------------------


def test_branches(cli: CommandLine) -> None:
    first = _commit(cli, "sales/main", a="1")
    _commit(cli, "sales/main", a="2")
    document = cli.ok("branch", "create", "sales/team%2Fdev", "--from", "main~1", "--json").json
    assert document == {"repository": "sales", "name": "team/dev", "commit": first}
    listed = cli.ok("branch", "list", "sales", "--json").json["refs"]
    assert [(ref["name"], ref["default"]) for ref in listed] == [
        ("main", True),
        ("team/dev", False),
    ]
    assert _content(cli, "sales/team%2Fdev/a") == "1"
    cli.fails("already_exists", 4, "branch", "create", "sales/main")
    cli.fails("invalid_name", 2, "branch", "create", "sales/.hidden")
    cli.fails("not_found", 3, "branch", "create", "sales/x", "--from", "none")
    assert "%2F" in cli.fails("invalid_input", 2, "branch", "create", "sales/a/b")["hint"]
    cli.fails("invalid_input", 2, "branch", "list", "sales/main")
    cli.fails("conflict", 4, "branch", "delete", "sales/main")
    cli.fails("not_found", 3, "branch", "delete", "sales/none")
    cli.ok("branch", "delete", "sales/team%2Fdev")
    assert len(cli.ok("branch", "list", "sales", "--json").json["refs"]) == 1


def test_deleting_a_branch_with_uncommitted_changes_asks(cli: CommandLine) -> None:
    cli.ok("branch", "create", "sales/dev")
    _put(cli, "sales/dev/a")
    cli.fails("refused", 6, "branch", "delete", "sales/dev")
    assert _content(cli, "sales/dev/a") == "x"
    cli.ok("branch", "delete", "sales/dev", "--yes")


def test_log_of_a_path(cli: CommandLine) -> None:
    first = _commit(cli, "sales/main", a="1")
    second = _commit(cli, "sales/main", **{"b/c": "1"})

    def log(*args: str) -> list[str]:
        return [commit["id"] for commit in cli.ok("log", *args, "--json").json["commits"]]

    assert log("sales/main", "a") == log("sales", "a") == [first]
    assert log("sales/main", "b/") == log("sales/main", "b/c") == [second]
    assert log("sales/main", "b") == []
    hint = cli.fails("invalid_input", 2, "log", "sales/main/b/")["hint"]
    assert "a space before the path: reclaim log sales/main b/" in hint


def test_tags(cli: CommandLine) -> None:
    first = _commit(cli, "sales/main", a="1")
    assert cli.ok("tag", "create", "sales/v1", "main", "--json").json["commit"] == first
    listed = cli.ok("tag", "list", "sales", "--json").json["refs"]
    assert [(ref["name"], ref["kind"], ref["commit"]) for ref in listed] == [("v1", "tag", first)]
    assert cli.ok("--no-header", "tag", "list", "sales").out.split()[:2] == ["tag", first[:12]]
    cli.fails("already_exists", 4, "tag", "create", "sales/v1", "main")
    cli.fails("already_exists", 4, "tag", "create", "sales/main", "main")
    cli.fails("not_found", 3, "tag", "create", "sales/v2", "none")
    cli.ok("tag", "delete", "sales/v1")
    cli.fails("not_found", 3, "tag", "delete", "sales/v1")


def test_merge(cli: CommandLine) -> None:
    _commit(cli, "sales/main", a="1")
    cli.ok("branch", "create", "sales/dev")
    dev = _commit(cli, "sales/dev", b="2")
    main = _commit(cli, "sales/main", c="3")
    document = cli.ok("merge", "sales/dev", "--into", "main", "-m", "Join", "--json").json
    assert document["merged"] is True
    assert document["commit"]["parents"] == [main, dev]
    assert document["commit"]["message"] == "Join"
    again = cli.ok("merge", "sales/dev", "--into", "main")
    assert again.out == "main is already up to date with dev.\n"
    history = cli.ok("log", "sales", "--first-parent", "--json").json["commits"]
    assert dev not in [commit["id"] for commit in history]
    assert "Merge:" in cli.ok("log", "sales").out


def test_a_merge_conflict_changes_nothing(cli: CommandLine) -> None:
    _commit(cli, "sales/main", a="1")
    cli.ok("branch", "create", "sales/dev")
    _commit(cli, "sales/dev", a="theirs")
    head = _commit(cli, "sales/main", a="ours")
    merge = ("merge", "sales/dev", "--into", "main")
    error = cli.fails("merge_conflict", 4, *merge)
    assert error["details"] == {"count": 1, "paths": ["a"]}
    assert cli.ok("log", "sales", "-n", "1", "--json").json["commits"][0]["id"] == head
    cli.fails("usage", 2, *merge, "--prefer", "neither")
    cli.fails("usage", 2, "merge", "sales/dev")
    cli.fails("not_found", 3, "merge", "sales/none", "--into", "main")
    cli.fails("not_found", 3, "merge", "sales/dev", "--into", "none")
    _put(cli, "sales/main/dirty")
    cli.fails("dirty_branch", 4, *merge)
    cli.ok("reset", "sales/main")
    cli.ok(*merge, "--prefer", "source")
    assert _content(cli, "sales/main/a") == "theirs"


# --- diff, reset, revert, clean -----------------------------------------------------------------


def test_diff_of_uncommitted_changes(cli: CommandLine) -> None:
    _commit(cli, "sales/main", a="1", b="22", c="3")
    _put(cli, "sales/main/a", b"four")
    _put(cli, "sales/main/d", b"5")
    cli.ok("rm", "sales/main/b")
    document = cli.ok("diff", "sales/main", "--json").json
    assert [(change["path"], change["kind"]) for change in document["changes"]] == [
        ("a", "changed"),
        ("b", "removed"),
        ("d", "added"),
    ]
    assert document["changes"][0]["after"]["size"] == 4
    assert document["changes"][1]["after"] is None
    assert document["summary"] == {"added": 1, "changed": 1, "removed": 1}
    assert [
        line.split() for line in cli.ok("diff", "sales/main", "--no-header").out.splitlines()
    ] == [
        ["changed", "1", "4", "a"],
        ["removed", "2", "-", "b"],
        ["added", "-", "1", "d"],
        ["1", "added,", "1", "changed,", "1", "removed"],
    ]
    assert cli.ok("diff", "sales/main", "--stat").out == "1 added, 1 changed, 1 removed\n"
    assert "changes" not in cli.ok("diff", "sales/main", "--stat", "--json").json
    only = cli.ok("diff", "sales/main", "--prefix", "d", "--json").json["changes"]
    assert [change["path"] for change in only] == ["d"]


def test_diff_of_two_refs(cli: CommandLine) -> None:
    _commit(cli, "sales/main", a="1")
    cli.ok("tag", "create", "sales/v1", "main")
    _commit(cli, "sales/main", b="2")
    changes = cli.ok("diff", "sales/v1", "main", "--json").json["changes"]
    assert [(change["path"], change["kind"]) for change in changes] == [("b", "added")]
    changes = cli.ok("diff", "sales/main", "v1", "--json").json["changes"]
    assert [(change["path"], change["kind"]) for change in changes] == [("b", "removed")]
    cli.fails("invalid_input", 2, "diff", "sales/v1")
    cli.fails("not_found", 3, "diff", "sales/none")
    cli.fails("not_found", 3, "diff", "sales/main", "none")
    cli.fails("invalid_path", 2, "diff", "sales/main", "--prefix", "../x")


def test_reset(cli: CommandLine) -> None:
    first = _commit(cli, "sales/main", a="1")
    _commit(cli, "sales/main", a="2")
    for path in ("a", "d/1", "d/2", "e"):
        _put(cli, f"sales/main/{path}", b"new")
    cli.ok("reset", "sales/main/a")
    assert _content(cli, "sales/main/a") == "2"
    assert cli.ok("reset", "sales/main", "--prefix", "d/", "--json").json["changes"] == 2
    assert _content(cli, "sales/main/e") == "new"
    cli.ok("reset", "sales/main")
    cli.fails("not_found", 3, "get", "sales/main/e")
    assert cli.ok("reset", "sales/main", "--to", "main~1", "--json").json["commit"] == first
    assert _content(cli, "sales/main/a") == "1"


def test_what_reset_refuses(cli: CommandLine) -> None:
    _put(cli, "sales/main/a")
    cli.fails("invalid_input", 2, "reset", "sales/main/a", "--prefix", "a")
    cli.fails("invalid_input", 2, "reset", "sales/main", "--prefix", "a", "--to", "main")
    cli.fails("invalid_input", 2, "reset", "sales/main", "--prefix", "")
    cli.fails("invalid_input", 2, "reset", "sales")
    cli.fails("not_found", 3, "reset", "sales/main/b")
    cli.fails("not_found", 3, "reset", "sales/none")
    cli.fails("not_found", 3, "reset", "sales/main", "--to", "none")
    assert _content(cli, "sales/main/a") == "x"


def test_revert(cli: CommandLine) -> None:
    _commit(cli, "sales/main", a="1")
    bad = _commit(cli, "sales/main", a="2", b="2")
    made = cli.ok("revert", "sales/main", bad[:8], "--committer", "ines", "--json").json
    assert (made["parents"], made["committer"]) == ([bad], "ines")
    assert _content(cli, "sales/main/a") == "1"
    cli.fails("not_found", 3, "get", "sales/main/b")
    cli.fails("invalid_input", 2, "revert", "sales/main", "main", "--parent", "7")
    cli.fails("not_found", 3, "revert", "sales/main", "none")
    cli.ok("branch", "create", "sales/dev")
    _commit(cli, "sales/dev", c="3")
    cli.ok("merge", "sales/dev", "--into", "main")
    cli.fails("invalid_input", 2, "revert", "sales/main", "main")
    cli.ok("revert", "sales/main", "main", "--parent", "1")
    cli.fails("not_found", 3, "get", "sales/main/c")


def test_clean(cli: CommandLine, catalog: Catalog) -> None:
    cli.ok("repo", "create", "other")
    cli.ok("branch", "create", "sales/dev")
    for path in ("a", "b"):
        _put(cli, f"sales/dev/{path}")
    cli.ok("branch", "delete", "sales/dev", "--yes")
    assert cli.ok("clean", "other", "--json").json["repositories"][0]["rows"] == 0
    cleaned = cli.ok("clean", "--json").json["repositories"]
    assert [(one["name"], one["rows"]) for one in cleaned] == [("other", 0), ("sales", 2)]
    assert cli.ok("clean").out == "Removed 0 unused rows.\n"
    cli.fails("not_found", 3, "clean", "none")


def test_refs_of_a_time_and_branches_at_a_ref(cli: CommandLine) -> None:
    first = _commit(cli, "sales/main", a="1")
    day = cli.ok("log", "sales", "-n", "1", "--json").json["commits"][0]["written_at"][:10]
    cli.ok("branch", "create", "sales/then", f"main@{day}")
    cli.ok("branch", "create", "sales/same", "--from", "main@2099-12-31T00:00+01:00")
    for name in ("then", "same"):
        [ref] = [
            one
            for one in cli.ok("branch", "list", "sales", "--json").json["refs"]
            if one["name"] == name
        ]
        assert ref["commit"] == first
    assert cli.ok("ls", f"sales/main@{day}T23:59:59.5Z").out
    assert cli.ok("lease", "hold", f"sales/main@{day}T23:59").out
    cli.fails("not_found", 3, "ls", "sales/main@2020-01-01")
    cli.fails("invalid_input", 2, "log", "sales/main@then")
    cli.fails("invalid_input", 2, "branch", "create", "sales/x", "main", "--from", "main")


# --- deleting online ----------------------------------------------------------------------------


def test_settings_of_a_repository(cli: CommandLine) -> None:
    shown = cli.ok("repo", "show", "sales", "--json").json["settings"]
    assert shown == {"hard_delete": "off", "protect": ""}
    changed = cli.ok("repo", "set", "sales", "hard_delete=on", "--json").json
    assert changed["settings"] == {"hard_delete": "on", "protect": ""}
    assert "hard_delete     on" in cli.ok("repo", "show", "sales").out
    assert "hard_delete" in cli.fails("invalid_input", 2, "repo", "set", "sales", "hard=on")["hint"]
    cli.fails("invalid_input", 2, "repo", "set", "sales", "hard_delete=yes")
    cli.fails("not_found", 3, "repo", "set", "none", "hard_delete=on")


def test_reap(cli: CommandLine, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "No repository deletes online" in cli.ok("reap", "--once").out
    cli.ok("repo", "set", "sales", "hard_delete=on")
    cli.ok("put", "-", "sales/main/a", stdin=b"abc")
    cli.ok("rm", "sales/main/a")
    [done] = cli.ok("reap", "--once", "--json").json["repositories"]
    assert (done["name"], done["objects"], done["due"]) == ("sales", 0, 0)
    monkeypatch.setattr(backlog, "MARGIN", timedelta(0))
    [done] = cli.ok("reap", "--once", "--json").json["repositories"]
    assert (done["objects"], done["bytes"], done["failed"]) == (1, 3, 0)
    [online] = cli.ok("runs", "sales", "--json").json["online"]
    assert (online["on"], online["objects"], online["due"]) == (True, 1, 0)
    assert "Deleted online" in cli.ok("runs", "sales").out
    cli.fails("invalid_input", 2, "reap", "--every", "0s")
    assert "5min" in cli.fails("invalid_input", 2, "reap", "--every", "5m")["hint"]
    assert parse_age("--every", reap.EVERY) == timedelta(minutes=5)
