"""The errors: their tree, and what people meet when a database, a disk or a call is wrong."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from obstore import exceptions as of_obstore
from obstore.store import from_url
from sqlalchemy import event
from sqlalchemy import exc as of_sqlalchemy

import reclaim
from reclaim import errors
from reclaim.catalog import Branch, Catalog, Repository, addresses, database
from reclaim.errors import (
    AlreadyExists,
    Corrupt,
    DatabaseLocked,
    DatabaseUnavailable,
    ForeignStorage,
    InvalidInput,
    NestedStorage,
    NotFound,
    OutOfSpace,
    ReclaimError,
    StorageDenied,
    StorageUnavailable,
    TransactionFailed,
)
from reclaim.storage import translated
from reclaim.testing import FakeClock
from tests.conftest import Backend

# The tree


def documented() -> dict[str, tuple[int, int]]:
    """What the module's docstring says: name → exit code and HTTP status."""
    found: dict[str, tuple[int, int]] = {}
    codes = (0, 0)
    for line in (errors.__doc__ or "").splitlines():
        told = re.match(r"[ │├└─]+([A-Z]\w+(?:, [A-Z]\w+)*)(?: +exit (\d) +HTTP (\d{3}))?", line)
        if told and ("exit" in line or line.lstrip()[0] in "│├└"):
            if told[2]:
                codes = (int(told[2]), int(told[3]))
            found |= dict.fromkeys(told[1].split(", "), codes)
    return found


CLASSES: list[type[ReclaimError]] = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, ReclaimError)
]


def test_the_docstring_draws_the_whole_tree() -> None:
    drawn = documented()
    assert drawn == {kind.__name__: (kind.exit_code, kind.http_status) for kind in CLASSES}
    assert len(drawn) > 25


def test_every_error_has_a_kind_of_its_own() -> None:
    kinds = {kind.kind: kind for kind in CLASSES}
    assert len(kinds) == len(CLASSES)
    for name, kind in kinds.items():
        snake = re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()
        assert name == ("error" if kind is ReclaimError else snake)


def test_every_branch_of_the_tree_has_an_exit_code_of_its_own() -> None:
    branches: list[type[ReclaimError]] = ReclaimError.__subclasses__()
    codes = [ReclaimError.exit_code, *(kind.exit_code for kind in branches)]
    assert len(set(codes)) == len(codes)
    assert all(kind.exit_code > 0 for kind in branches)
    assert all(400 <= kind.http_status < 600 for kind in CLASSES)
    for branch in branches:
        leaves: list[type[ReclaimError]] = branch.__subclasses__()
        assert {leaf.exit_code for leaf in leaves} <= {branch.exit_code}


def test_a_body_says_kind_message_hint_and_details() -> None:
    plain = errors.NotFound("there is no x")
    assert plain.body() == {"kind": "not_found", "message": "there is no x"}
    assert str(plain) == "there is no x"
    full = errors.MergeConflict("2 paths", hint="choose", count=2, paths=["a", "é"])
    assert full.body() == {
        "kind": "merge_conflict",
        "message": "2 paths",
        "hint": "choose",
        "details": {"count": 2, "paths": ["a", "é"]},
    }
    json.dumps(full.body())


# Foreign errors. New ones in a new version of a library make these tables fail.

FROM_OBSTORE: dict[str, type[ReclaimError]] = {
    "AlreadyExistsError": AlreadyExists,
    "BaseError": StorageUnavailable,
    "GenericError": StorageUnavailable,
    "InvalidPathError": InvalidInput,
    "JoinError": Corrupt,
    "NotFoundError": NotFound,
    "NotModifiedError": StorageUnavailable,
    "NotSupportedError": InvalidInput,
    "PermissionDeniedError": StorageDenied,
    "PreconditionError": AlreadyExists,
    "UnauthenticatedError": StorageDenied,
    "UnknownConfigurationKeyError": InvalidInput,
}


def raised(error: Exception) -> ReclaimError:
    """What the storage's door makes of a foreign error."""
    with pytest.raises(ReclaimError) as caught, translated("read", "a/b"):
        raise error
    assert caught.value.__cause__ is error
    assert "a/b" in caught.value.message
    assert "\n" not in caught.value.message
    return caught.value


def test_every_error_of_obstore_has_a_place_in_the_tree() -> None:
    foreign: dict[str, Any] = dict(inspect.getmembers(of_obstore, inspect.isclass))
    assert {
        name: type(raised(kind("boom\nmore"))) for name, kind in foreign.items()
    } == FROM_OBSTORE


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (FileNotFoundError(2, "No such file"), NotFound),
        (PermissionError(13, "Permission denied"), StorageDenied),
        (OSError(28, "No space left on device"), OutOfSpace),
        (OSError(122, "Disk quota exceeded"), OutOfSpace),
        (OSError(5, "Input/output error"), StorageUnavailable),
        (ConnectionError("reset"), StorageUnavailable),
        (TimeoutError("slow"), StorageUnavailable),
        (ValueError("wrong"), InvalidInput),
        (of_obstore.GenericError("Generic: No space left on device (os error 28)"), OutOfSpace),
        (of_obstore.GenericError("Generic: Permission denied (os error 13)"), StorageDenied),
    ],
)
def test_errors_of_the_system_have_a_place_in_the_tree(
    error: Exception, kind: type[ReclaimError]
) -> None:
    assert type(raised(error)) is kind


def of_database(error: Exception) -> ReclaimError:
    """What the database's door makes of a foreign error."""
    with pytest.raises(ReclaimError) as caught, database.translated("here"):
        raise error
    assert caught.value.__cause__ is error
    return caught.value


def foreign_database_errors() -> Iterator[Exception]:
    for _, kind in inspect.getmembers(of_sqlalchemy, inspect.isclass):
        if issubclass(kind, Exception) and not issubclass(kind, Warning):
            error = kind.__new__(kind)
            error.args = ("boom",)
            # Constructors differ; these are what their texts are made of.
            vars(error).update(
                message="boom", statement=None, params=None, orig=None, detail=[], code=None
            )
            yield error


def test_every_error_of_sqlalchemy_has_a_place_in_the_tree() -> None:
    found = {type(error).__name__: error for error in foreign_database_errors()}
    # Only asyncio drivers raise it, and SQLAlchemy wraps it.
    found.pop("EmulatedDBAPIException", None)
    assert len(found) > 40
    kinds = {name: type(of_database(error)) for name, error in found.items()}
    for name, kind in kinds.items():
        wrong_url = isinstance(found[name], of_sqlalchemy.ArgumentError)
        assert (name, kind) == (name, InvalidInput if wrong_url else DatabaseUnavailable)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("UNIQUE constraint failed: tags.name", database.LostRace),
        ("database is locked", DatabaseLocked),
        ("database table is locked", DatabaseLocked),
        ("database or disk is full", OutOfSpace),
        ("file is not a database", Corrupt),
        ("database disk image is malformed", Corrupt),
        ("no such table: commits", NotFound),
        ("attempt to write a readonly database", DatabaseUnavailable),
        ("disk I/O error", DatabaseUnavailable),
        ("unable to open database file", DatabaseUnavailable),
    ],
)
def test_what_sqlite_says_has_a_place_in_the_tree(said: str, kind: type[ReclaimError]) -> None:
    bare = sqlite3.OperationalError(said)
    assert type(of_database(bare)) is kind
    assert type(of_database(of_sqlalchemy.OperationalError("SELECT 1", {}, bare))) is kind


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("23505", TransactionFailed),
        ("40001", TransactionFailed),
        ("40P01", TransactionFailed),
        ("55P03", DatabaseLocked),
        ("53100", OutOfSpace),
        ("42P01", NotFound),
        ("25006", DatabaseUnavailable),
        ("42501", DatabaseUnavailable),
        ("57P01", DatabaseUnavailable),
        ("53300", DatabaseUnavailable),
    ],
)
def test_what_postgresql_says_has_a_place_in_the_tree(state: str, kind: type[ReclaimError]) -> None:
    bare = psycopg.errors.lookup(state)("boom")
    assert isinstance(of_database(of_sqlalchemy.DBAPIError("SELECT 1", {}, bare)), kind)


# The database


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
    with pytest.raises(NotFound, match="holds no catalog"):
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
    monkeypatch.setattr(database, "LOCK_WAIT_SECONDS", 0.1)
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


# The storage


def test_a_storage_folder_that_is_gone_is_not_found(embedded: Backend) -> None:
    embedded.init().create_repository("sales").branch("main").put("a", b"1")
    embedded.close()
    folder = Path(embedded.location) / "objects"
    folder.rename(folder.with_name("away"))
    with pytest.raises(NotFound, match=r"the storage folder .* does not exist"):
        Catalog.open(embedded.location)
    assert not folder.exists()
    folder.with_name("away").rename(folder)
    with Catalog.open(embedded.location, clock=embedded.clock) as catalog:
        assert catalog.repository("sales").branch("main").get("a") == b"1"


def test_bytes_that_are_missing_are_corrupt(repo: Repository, main: Branch) -> None:
    entry = main.put("a", b"1")
    repo._workspace.storage.delete(entry.address)
    reads: list[Callable[[], object]] = [
        lambda: main.get("a"),
        lambda: list(main.stream("a")),
        lambda: repo.create_branch("b").copy("a", "c", source_ref="main"),
    ]
    for read in reads:
        with pytest.raises(Corrupt, match="the bytes of a are missing"):
            read()


def test_an_unreachable_storage_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {"ENDPOINT_URL": "http://127.0.0.1:1", "ALLOW_HTTP": "true", "REGION": "us-east-1"}
    for name, value in (keys | {"ACCESS_KEY_ID": "k", "SECRET_ACCESS_KEY": SECRET}).items():
        monkeypatch.setenv(f"AWS_{name}", value)
    once = {"max_retries": 1}
    monkeypatch.setattr("reclaim.storage.from_url", partial(from_url, retry_config=once))
    with pytest.raises(StorageUnavailable) as error:
        Catalog.init(tmp_path, storage="s3://bucket/place")
    assert SECRET not in json.dumps(error.value.body())
    assert "reachable" in (error.value.hint or "")
    with pytest.raises(NotFound, match="holds no catalog"):
        Catalog.open(tmp_path)


FULL = """
    import os, subprocess, sys
    from pathlib import Path
    from reclaim.catalog import Catalog
    from reclaim.errors import OutOfSpace

    place, full = Path(sys.argv[1]), sys.argv[2]
    tiny = place / "tiny"
    tiny.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", tiny], check=True)

    location, storage = place / "db", tiny / "objects"
    if full == "database":
        location, storage = tiny / "db", place / "objects"
    big = place / "big"
    big.write_bytes(os.urandom(3_000_000))

    def files():
        return {file for file in storage.rglob("*") if file.is_file()}

    with Catalog.init(location, storage=str(storage)) as catalog:
        repo = catalog.create_repository("sales")
        main = repo.branch("main")
        main.put("first", b"first")
        main.commit("first")
        before = files()
        if full == "storage":
            for data in (big.read_bytes(), big):
                try:
                    main.put("big", data)
                except OutOfSpace as error:
                    assert "nothing was half written" in error.hint, error.hint
                else:
                    raise AssertionError("3 MB went into 1.5 MB")
                assert files() == before, files() - before
                assert not main.exists("big")
        filler = tiny / "filler"
        with filler.open("wb") as hole:
            try:
                while True:
                    hole.write(bytes(4096))
                    hole.flush()
            except OSError as error:
                assert error.errno == 28, error
        done = []
        try:
            for n in range(300):
                main.put(f"more/{n:03d}", b"x" * 20_000, metadata={"k": "v" * 2_000})
                done.append(f"more/{n:03d}")
        except OutOfSpace as error:
            print("said", error.message)
        else:
            raise AssertionError("the disk is not full")
        assert main.get("first") == b"first"
        assert [entry.path for entry in main.entries("more")] == done
        try:
            main.put("again", b"x" * 20_000, metadata={"k": "v" * 20_000})
            main.commit("again")
        except OutOfSpace:
            pass
        assert [entry.path for entry in repo.at("main~0").entries()][:1] == ["first"]
        filler.unlink()
        main.put("last", b"last")
        main.commit("last")
    with Catalog.open(location) as catalog:
        main = catalog.repository("sales").branch("main")
        assert main.get("first") == b"first"
        assert main.get("last") == b"last"
        for path in done:
            assert main.get(path) == b"x" * 20_000
    print("fine")
"""


@pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode != 0,
    reason="this machine does not let us mount a small disk",
)
@pytest.mark.parametrize("full", ["storage", "database"])
def test_a_full_disk_loses_nothing_and_works_again_when_there_is_space(
    tmp_path: Path, full: str
) -> None:
    script = tmp_path / "full.py"
    script.write_text(dedent(FULL))
    source = str(Path(reclaim.__file__).parents[1])
    done = subprocess.run(
        ["unshare", "-rm", sys.executable, script, tmp_path, full],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PYTHONPATH": source, "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"},
    )
    assert (done.returncode, done.stdout[-5:]) == (0, "fine\n"), done.stderr[-2000:]


# Making a catalog


def test_a_catalog_is_not_made_twice(backend: Backend) -> None:
    catalog = backend.init()
    catalog.create_repository("sales").branch("main").put("a", b"1")
    before = {stored.address for stored in catalog._storage.list()}
    with pytest.raises((AlreadyExists, ForeignStorage)):
        backend.init()
    with pytest.raises(AlreadyExists, match="there is a catalog at"):
        Catalog.init(backend.location, storage=f"{catalog.storage_url}-other")
    assert {stored.address for stored in catalog._storage.list()} == before
    assert catalog.repository("sales").branch("main").get("a") == b"1"


def test_a_storage_belongs_to_one_catalog(backend: Backend, tmp_path: Path) -> None:
    url = backend.init().storage_url
    for place in (url, url + "/", url.replace("s3://", "s3a://"), url.replace("file://", "")):
        with pytest.raises(ForeignStorage, match="belongs to a catalog already"):
            Catalog.init(tmp_path / "other", storage=place)
        with pytest.raises(NotFound):
            Catalog.open(tmp_path / "other")


def test_storages_must_not_nest(
    backend: Backend, tmp_path: Path, clock: FakeClock, request: pytest.FixtureRequest
) -> None:
    root = str(tmp_path / "root")
    if backend.name == "server":
        root = f"{request.getfixturevalue('bucket')}/{uuid4().hex}"
    with Catalog.init(tmp_path / "one", storage=f"{root}/a/b", clock=clock) as catalog:
        address = catalog.create_repository("sales").branch("main").put("x", b"1").address
        for number, inner in enumerate(["a/b/c", "a/b/repos", "a/b/repos/x/y"]):
            with pytest.raises(NestedStorage, match="lies inside the storage of another"):
                Catalog.init(tmp_path / f"inner{number}", storage=f"{root}/{inner}")
        for number, outer in enumerate(["", "/a"]):
            with pytest.raises(NestedStorage, match="another catalog's storage lies inside"):
                Catalog.init(tmp_path / f"outer{number}", storage=root + outer)
        # What was refused has claimed nothing.
        with Catalog.init(tmp_path / "beside", storage=f"{root}/a/bb", clock=clock) as beside:
            beside.create_repository("sales").branch("main").put("x", b"1")
        assert catalog.repository("sales").branch("main").get("x") == b"1"
        assert catalog._storage.head(address).size == 1
        assert catalog._storage.head(addresses.MARKER).size > 0


def test_a_catalog_in_a_database_needs_a_storage(tmp_path: Path) -> None:
    for location in (f"sqlite:///{tmp_path}/x.db", "postgresql://127.0.0.1:1/db"):
        with pytest.raises(InvalidInput, match="needs a place for its objects"):
            Catalog.init(location)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("location", ["", "  ", "mysql://host/db", "sqlite://", "x://"])
def test_a_location_that_cannot_be_is_refused(location: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        Catalog.open(location)
    with pytest.raises(InvalidInput):
        Catalog.init(location, storage=str(tmp_path / "storage"))


@pytest.mark.parametrize(
    "storage", [" ", "s3://key:secret@bucket/x", "s3://bucket/x?region=y", "s3://b/%2e"]
)
def test_a_storage_that_cannot_be_is_refused(storage: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as error:
        Catalog.init(tmp_path / "db", storage=storage)
    assert "secret" not in json.dumps(error.value.body())
    with pytest.raises(NotFound):
        Catalog.open(tmp_path / "db")


def test_a_place_below_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"")
    for location, storage in ((file / "db", None), (file, None), (tmp_path / "db", str(file))):
        with pytest.raises(ReclaimError):
            Catalog.init(location, storage=storage)
    with pytest.raises(NotFound):
        Catalog.open(file / "db")
    assert file.read_bytes() == b""


# Text that a database cannot hold


TEXTS = {"NUL": "a\0b", "half a surrogate pair": "a\ud800"}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_name_that_cannot_be_stored_is_not_found(
    catalog: Catalog, repo: Repository, main: Branch, text: str
) -> None:
    uses: dict[str, Callable[[], object]] = {
        "repository": lambda: catalog.repository(text),
        "branch": lambda: repo.branch(text).put("a", b"1"),
        "read": lambda: repo.at(text).get("a"),
        "exists": lambda: main.stat("a" + text),
        "log": lambda: list(repo.log(text)),
        "delete branch": lambda: repo.delete_branch(text),
        "delete tag": lambda: repo.delete_tag(text),
        "merge": lambda: main.merge(text),
    }
    wrong = {}
    for name, use in uses.items():
        try:
            use()
        except (InvalidInput, NotFound):
            continue
        except Exception as error:
            wrong[name] = repr(error)
    assert wrong == {}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_text_that_cannot_be_stored_is_refused(repo: Repository, main: Branch, text: str) -> None:
    main.put("a", b"1")
    uses: dict[str, Callable[[], object]] = {
        "message": lambda: main.commit(text),
        "committer": lambda: main.commit("x", committer=text),
        "metadata of a commit": lambda: main.commit("x", metadata={"k": text}),
        "content type": lambda: main.put("b", b"1", content_type=text),
        "metadata": lambda: main.put("b", b"1", metadata={"k": text}),
        "name in metadata": lambda: main.put("b", b"1", metadata={text: "v"}),
        "after": lambda: main.list(after=text),
    }
    wrong = {}
    for name, use in uses.items():
        try:
            use()
        except InvalidInput:
            continue
        except Exception as error:
            wrong[name] = repr(error)
        else:
            # Taken, then: it must read back.
            entry = main.stat("b") if main.exists("b") else None
            if entry and text not in (
                entry.content_type,
                *entry.metadata,
                *entry.metadata.values(),
            ):
                wrong[name] = "lost"
        main.reset()
        main.put("a", b"1")
    assert wrong == {}
