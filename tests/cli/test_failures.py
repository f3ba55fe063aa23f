"""What happens when something is wrong: one document, one exit code, and nothing lost."""

from __future__ import annotations

import errno
import json
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from reclaim.catalog import Catalog
from reclaim.catalog.database import transactions
from reclaim.cli import main as entry
from reclaim.cli.views.failure import Failure, from_system
from reclaim.errors import InvalidInput, OutOfSpace, ReclaimError, StorageDenied
from tests.cli.conftest import CommandLine
from tests.cli.test_help import all_errors


@pytest.mark.parametrize("error", all_errors(), ids=lambda error: error.__name__)
def test_every_error_keeps_its_kind_and_code(error: type[ReclaimError]) -> None:
    failure = Failure.of(error("what happened", hint="what to do", path="a"))
    assert (failure.kind, failure.exit_code) == (error.kind, error.exit_code)
    assert failure.document() == {
        "error": {
            "kind": error.kind,
            "message": "what happened",
            "hint": "what to do",
            "details": {"path": "a"},
        }
    }


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, OutOfSpace),
        (errno.EDQUOT, OutOfSpace),
        (errno.EACCES, StorageDenied),
        (errno.EROFS, StorageDenied),
        (errno.EISDIR, InvalidInput),
    ],
)
def test_what_the_system_says(number: int, expected: type[ReclaimError]) -> None:
    error = from_system(OSError(number, "said", "file"))
    assert type(error) is expected
    assert error.message == "file: said"


def test_without_a_catalog(bare: CommandLine, tmp_path: Path) -> None:
    where = ("--catalog", str(tmp_path / "none"))
    error = bare.fails("not_found", 3, "ls", *where)
    assert "reclaim init" in error["hint"]
    bare.fails("invalid_input", 2, "ls", "--catalog", "mysql://host/x")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    "args",
    [
        ("unknown",),
        ("ls", "--unknown"),
        ("ls", "a", "b"),
        ("get",),
        ("repo", "unknown"),
        ("--catalog",),
    ],
)
def test_usage_errors(bare: CommandLine, args: tuple[str, ...]) -> None:
    text = bare(*args)
    assert text.code == 2
    assert text.out == ""
    assert text.err.startswith("error: ")
    assert "--help`" in text.err
    coded = bare("--json", *args)
    assert (coded.code, coded.error["kind"], coded.err) == (2, "usage", "")


def test_json_after_two_dashes_is_not_the_option(bare: CommandLine, tmp_path: Path) -> None:
    result = bare("ls", "--catalog", str(tmp_path / "none"), "--", "--json")
    assert (result.code, result.out) == (3, "")


@pytest.fixture
def stored(cli: CommandLine) -> CommandLine:
    """``sales/main`` with one committed object."""
    cli.ok("put", "-", "sales/main/a", stdin=b"kept")
    cli.ok("commit", "sales/main", "-m", "Keep a")
    return cli


def test_a_locked_database(
    stored: CommandLine, location: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.ok("put", "-", "sales/main/c", stdin=b"x")
    monkeypatch.setattr(transactions, "LOCK_WAIT_SECONDS", 0.1)
    with closing(sqlite3.connect(location / "catalog.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        stored.fails("database_locked", 5, "put", "-", "sales/main/b", stdin=b"x")
        stored.fails("database_locked", 5, "commit", "sales/main", "-m", "x")
        assert stored.ok("get", "sales/main/a", "-").out == "kept"
    stored.ok("put", "-", "sales/main/b", stdin=b"x")


def test_a_database_that_is_gone(stored: CommandLine, location: Path) -> None:
    (location / "catalog.db").rename(location / "aside.db")
    stored.fails("not_found", 3, "put", "-", "sales/main/b", stdin=b"x")
    assert not (location / "catalog.db").exists()
    (location / "aside.db").rename(location / "catalog.db")
    assert stored.ok("get", "sales/main/a", "-").out == "kept"


def test_a_database_that_is_none(stored: CommandLine, location: Path) -> None:
    for file in location.glob("catalog.db*"):
        file.unlink()
    (location / "catalog.db").write_bytes(b"not a database at all, but long enough" * 100)
    stored.fails("corrupt", 8, "ls", "sales/main")
    (location / "catalog.db").write_bytes(b"")
    stored.fails("not_found", 3, "ls", "sales/main")


def test_a_database_that_does_not_answer(bare: CommandLine) -> None:
    where = ("--catalog", "postgresql://user:secret@127.0.0.1:1/none")
    error = bare.fails("database_unavailable", 5, "ls", *where)
    assert "secret" not in json.dumps(error)


def test_a_storage_that_is_gone(stored: CommandLine, location: Path) -> None:
    (location / "objects").rename(location / "aside")
    stored.fails("not_found", 3, "put", "-", "sales/main/b", stdin=b"x")
    (location / "aside").rename(location / "objects")
    assert stored.ok("get", "sales/main/a", "-").out == "kept"


def test_a_condemned_commit_is_gone(stored: CommandLine, location: Path) -> None:
    with closing(sqlite3.connect(location / "catalog.db")) as raw:
        raw.execute("UPDATE commits SET state = 'condemned', run_id = 'run7'")
        raw.commit()
    error = stored.fails("gone", 9, "log", "sales")
    assert "run7" in error["message"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for two megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting a small disk needs more rights")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_under_the_storage(bare: CommandLine, small_disk: Path) -> None:
    where = ("--catalog", str(small_disk / "catalog"))
    bare.ok("init", *where)
    bare.ok("repo", "create", "sales", *where)
    bare.ok("put", "-", "sales/main/a", *where, stdin=b"kept")
    bare.fails("out_of_space", 5, "put", "-", "sales/main/b", *where, stdin=bytes(3_000_000))
    listed = bare.ok("ls", "-r", "sales/main", "--json", *where).json["entries"]
    assert [found["path"] for found in listed] == ["a"]
    bare.ok("commit", "sales/main", "-m", "Still works", *where)


def test_a_full_disk_under_get(cli: CommandLine, small_disk: Path) -> None:
    cli.ok("put", "-", "sales/main/big", stdin=bytes(3_000_000))
    cli.fails("out_of_space", 5, "get", "sales/main/big", str(small_disk / "big"))
    assert list(small_disk.iterdir()) == []


class _Refusing:
    """A stdin whose reading ends in an exception."""

    def __init__(self, error: BaseException) -> None:
        self.buffer = self
        self._error = error

    def read(self, _size: int) -> bytes:
        raise self._error

    def isatty(self) -> bool:
        return False


def _put_from(cli: CommandLine, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> Any:
    def run(*args: str) -> int:
        monkeypatch.setattr("sys.stdin", _Refusing(error))
        return entry.main(["put", "-", "sales/main/x", *args])

    return run


def test_ctrl_c(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _put_from(cli, monkeypatch, KeyboardInterrupt())
    assert run() == 130
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: interrupted; ")
    assert run("--json") == 130
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "interrupted"
    assert cli.ok("ls", "sales/main").out == ""


def test_something_unexpected(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _put_from(cli, monkeypatch, ZeroDivisionError("a bug\nof several lines"))
    assert run() == 1
    said = capsys.readouterr()
    assert said.err.splitlines()[0] == "error: ZeroDivisionError: a bug"
    assert len(said.err.splitlines()) == 2
    assert run("--json") == 1
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "unexpected"
    monkeypatch.setenv("RECLAIM_DEBUG", "1")
    assert run() == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_an_error_on_the_way_leaves_no_half_document(
    stored: CommandLine, location: Path, catalog: Catalog
) -> None:
    """The second range of a listing is missing: JSON must be the error alone."""
    for file in (location / "objects" / "repos").rglob("_reclaim/meta/*/*"):
        file.unlink()
    stored.fails("corrupt", 8, "ls", "-r", "sales/main")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("doctor", "sales"), "not 'sales' alone"),
        (("doctor", "lakefs:x"), "unknown kind of store 'lakefs'"),
        (("plan", "lakefs:x"), "unknown kind of store 'lakefs'"),
        (("gc", "lakefs:x"), "unknown kind of store 'lakefs'"),
        (("put", "-", "sales/v1/a"), "'v1' is a tag"),
        (("plan", "sales", "--out", "{file}"), "{file} is a file"),
        (("plan", "sales", "--out", "{file}/below"), "{file} is a file"),
        (
            ("gc", "sales", "--history-only", "--older-than", "2999-01-01"),
            "2999-01-01T00:00:00Z is",
        ),
        (("plan", "sales", "--older-than", "2999-01-01"), "is in the future"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_the_message_names_the_real_mistake(
    cli: CommandLine, plain: None, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    cli.ok("tag", "create", "sales/v1", "main")
    named = [argument.format(file=file) for argument in arguments]
    error = cli.fails("invalid_input", 2, *named)
    assert said.format(file=file) in error["message"]
    if "lakefs:x" in named:
        assert "icechunk, terminus" in error["hint"]


def test_a_wrong_spark_url_is_a_mistake(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "foo")
    error = cli.fails("invalid_input", 2, "plan", "sales")
    assert "'foo' is not the URL of a Spark Connect server" in error["message"]
    assert "sc://HOST:PORT" in error["hint"]


def test_a_slash_in_a_ref_has_two_spellings(cli: CommandLine) -> None:
    cli.ok("branch", "create", "sales/b%2Fc")
    for spelling in ("b%2Fc", "b/c"):
        cli.ok("diff", "sales/main", spelling)
        cli.ok("merge", "sales/main", "--into", spelling)
        cli.ok("reset", "sales/main", "--to", spelling)
    cli.ok("branch", "create", "sales/x", "b%2Fc")
    cli.ok("tag", "create", "sales/y", "b%2Fc")
