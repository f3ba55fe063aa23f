"""What people meet when a database is missing, broken, locked or full."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from reclaim.catalog import Catalog
from reclaim.catalog.database import transactions
from reclaim.errors import (
    Corrupt,
    DatabaseLocked,
    DatabaseUnavailable,
    InvalidInput,
    NotFound,
    OutOfSpace,
    Refused,
)
from tests.conftest import Backend


def test_no_catalog_is_not_found_and_not_made(tmp_path: Path) -> None:
    (tmp_path / "folder" / "catalog.db").mkdir(parents=True)
    for place in ("absent", "absent/deeper", "folder"):
        with pytest.raises(NotFound, match="there is no catalog at") as error:
            Catalog.open(tmp_path / place)
        assert "reclaim init" in (error.value.hint or "")
    with pytest.raises(NotFound):
        Catalog.open(f"sqlite:///{tmp_path}/absent.db")
    assert [found.name for found in tmp_path.iterdir()] == ["folder"]


def test_a_database_without_a_catalog_is_not_found(backend: Backend, tmp_path: Path) -> None:
    if backend.name == "embedded":
        Path(backend.location).mkdir()
        sqlite3.connect(Path(backend.location) / "catalog.db").close()
        (Path(backend.location) / "catalog.db").touch()
    with pytest.raises(NotFound, match="contains no catalog"):
        Catalog.open(backend.location)


@pytest.mark.parametrize(
    "garbage", [b"not a database" * 1000, b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_what_is_no_database_is_corrupt(tmp_path: Path, garbage: bytes) -> None:
    (tmp_path / "catalog.db").write_bytes(garbage)
    with pytest.raises(Corrupt, match="is not a readable catalog database"):
        Catalog.open(tmp_path)
    assert (tmp_path / "catalog.db").read_bytes() == garbage


def test_a_truncated_database_is_corrupt(embedded: Backend) -> None:
    embedded.init().create_repository("sales")
    embedded.close()
    file = Path(embedded.location) / "catalog.db"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(Corrupt):
        Catalog.open(embedded.location).repositories()


def test_a_locked_database_says_so_and_loses_nothing(
    embedded: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "LOCK_WAIT_SECONDS", 0.1)
    catalog = embedded.init()
    main = catalog.create_repository("sales").branch("main")
    main.put("a", b"1")
    other = sqlite3.connect(Path(embedded.location) / "catalog.db", isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        writes: list[Callable[[], object]] = [
            lambda: main.put("b", b"2"),
            lambda: main.commit("x"),
            lambda: main.delete("a"),
            lambda: catalog.create_repository("other"),
        ]
        for write in writes:
            with pytest.raises(DatabaseLocked, match=r"locked by another writer for 0\.1 s"):
                write()
        # Readers do not wait for writers.
        assert main.get("a") == b"1"
        assert [entry.path for entry in main.entries()] == ["a"]
    finally:
        other.close()
    main.put("b", b"2")
    main.commit("x")
    assert [entry.path for entry in main.entries()] == ["a", "b"]
    assert [info.name for info in catalog.repositories()] == ["sales"]


def test_a_full_database_says_so_and_loses_nothing(embedded: Backend) -> None:
    repo = embedded.init().create_repository("sales")
    main = repo.branch("main")
    engine = repo._workspace.database._engine
    pages = [0]

    @event.listens_for(engine, "checkout")
    def limit(connection: sqlite3.Connection, _record: object, _proxy: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages[0] or 1_000_000}")

    main.put("first", b"1")
    with sqlite3.connect(Path(embedded.location) / "catalog.db") as other:
        (pages[0],) = other.execute("PRAGMA page_count").fetchone()
    other.close()
    done = ["first"]

    def fill() -> None:
        for n in range(1_000):
            main.put(f"{n:04d}", b"x" * 10, metadata={"k": "v" * 500})
            done.append(f"{n:04d}")

    with pytest.raises(OutOfSpace, match=r"the disk of the database .* is full") as error:
        fill()
    assert "rolled back" in (error.value.hint or "")
    assert [entry.path for entry in main.entries()] == sorted(done)
    assert main.get("first") == b"1"
    pages[0] = 0
    main.put("last", b"2")
    main.commit("all")
    assert {entry.path for entry in main.entries()} == {*done, "last"}


SECRET = "hunter2"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:hunter2@127.0.0.1:1/db",
        "postgresql+psycopg://user:hunter2@127.0.0.1:1/db?connect_timeout=2",
        "postgresql://127.0.0.1:1/db?user=user&password=hunter2",
        "postgresql://user:hunter2@127.0.0.1:port/db",
        "postgresql://user:hunter2@[::1/db",
        "postgresql ://user:hunter2@127.0.0.1/db",
        "mysql://user:hunter2@127.0.0.1:1/db",
        "nothing+at+all://user:hunter2@127.0.0.1:1/db",
    ],
)
def test_a_password_is_never_repeated(url: str, tmp_path: Path) -> None:
    storage = str(tmp_path / "storage")
    for action in (Catalog.open, partial(Catalog.init, storage=storage)):
        with pytest.raises((DatabaseUnavailable, InvalidInput)) as error:
            action(url)
        assert SECRET not in json.dumps(error.value.body()) + repr(error.value)


def test_a_database_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(DatabaseUnavailable, match=r"127\.0\.0\.1:1/db cannot be used") as error:
        Catalog.open("postgresql://user:hunter2@127.0.0.1:1/db")
    assert "reachable" in (error.value.hint or "")


def test_a_missing_postgresql_database_is_unavailable(postgres: Any) -> None:
    with pytest.raises(DatabaseUnavailable, match="does not exist"):
        Catalog.open(postgres.uri.replace("/postgres?", "/absent?"))


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_is_not_utf8_is_refused(
    postgres: Any, tmp_path: Path, encoding: str
) -> None:
    url = postgres.new_database(encoding=encoding)
    with pytest.raises(
        Refused, match=f"uses encoding {encoding}; a catalog requires UTF8"
    ) as error:
        Catalog.init(url, storage=str(tmp_path / "storage"))
    assert "ENCODING 'UTF8'" in (error.value.hint or "")
    with pytest.raises(NotFound, match="contains no catalog"):
        Catalog.open(url)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_the_files_of_a_catalog_are_for_their_owner_alone(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        catalog = Catalog.init(tmp_path / "deep" / "new")
        catalog.create_repository("sales").branch("main").put("a", b"1")
    finally:
        os.umask(before)
    modes = {file.name: file.stat().st_mode & 0o777 for file in catalog.database_files}
    assert modes == {"catalog.db": 0o600, "catalog.db-wal": 0o600, "catalog.db-shm": 0o600}
    assert (tmp_path / "deep" / "new").stat().st_mode & 0o777 == 0o700
    catalog.close()


def test_what_is_there_keeps_its_permissions(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    Catalog.init(tmp_path).close()
    (tmp_path / "catalog.db").chmod(0o640)
    Catalog.open(tmp_path).close()
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "catalog.db").stat().st_mode & 0o777 == 0o640
