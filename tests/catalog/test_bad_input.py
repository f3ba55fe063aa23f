"""Catalogs that cannot be made, and text that cannot be stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import inspect, text

from reclaim.catalog import Branch, Catalog, Repository, addresses
from reclaim.catalog.database.locations import database_url
from reclaim.catalog.database.transactions import Database
from reclaim.errors import (
    AlreadyExists,
    ForeignStorage,
    InvalidInput,
    NestedStorage,
    NotFound,
    ReclaimError,
    Refused,
)
from reclaim.testing import FakeClock
from tests.conftest import Backend

# Making a catalog


def test_a_catalog_is_not_made_twice(backend: Backend) -> None:
    catalog = backend.init()
    catalog.create_repository("sales").branch("main").put("a", b"1")
    before = {stored.address for stored in catalog._storage.list()}
    with pytest.raises((AlreadyExists, ForeignStorage)):
        backend.init()
    with pytest.raises(AlreadyExists, match="a catalog already exists at"):
        Catalog.init(backend.location, storage=f"{catalog.storage_url}-other")
    assert {stored.address for stored in catalog._storage.list()} == before
    assert catalog.repository("sales").branch("main").get("a") == b"1"


def test_a_table_of_others_is_not_taken_for_a_catalogs(backend: Backend) -> None:
    url = database_url(backend.location)
    if backend.name == "embedded":
        Path(backend.location).mkdir()
    database = Database.open(url, create=True)
    with database.write() as connection:
        connection.execute(text("CREATE TABLE commits (id TEXT)"))
    with pytest.raises(Refused, match=r"contains tables of another application.*: commits$"):
        backend.init()
    with database.read() as connection:
        assert inspect(connection).get_table_names() == ["commits"]
    database.close()


def test_a_storage_belongs_to_one_catalog(backend: Backend, tmp_path: Path) -> None:
    url = backend.init().storage_url
    for place in (url, url + "/", url.replace("s3://", "s3a://"), url.replace("file://", "")):
        with pytest.raises(ForeignStorage, match="already belongs to a catalog"):
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
        with pytest.raises(InvalidInput, match="needs a storage location"):
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
