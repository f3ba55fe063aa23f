"""The home of a storage: which database may collect there, and what makes a database another."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import delete, text

from reclaim.catalog import Catalog, addresses
from reclaim.catalog.collection.clones import copies
from reclaim.catalog.collection.clones.homes import REGISTERED
from reclaim.catalog.database.identity import same
from reclaim.catalog.database.schema import catalog_info
from reclaim.errors import AnotherDatabase
from reclaim.ids import new_uid
from reclaim.run.doctor.doctor import examine
from reclaim.storage import Payload
from reclaim.stores.findings import Level
from reclaim.testing import FakeClock, StorageWrapper
from tests.conftest import Backend
from tests.support.servers import PostgreSQL


def test_a_fresh_catalog_is_the_home_of_its_storage(backend: Backend, catalog: Catalog) -> None:
    catalog.home.check()
    backend.open().home.check()
    assert catalog.home.identity() is not None


def test_a_copied_folder_is_refused_until_it_is_adopted(embedded: Backend, tmp_path: Path) -> None:
    """Database and storage together: it cannot be known which of the two is to go on."""
    embedded.init().create_repository("sales")
    embedded.close()
    shutil.copytree(embedded.location, tmp_path / "copy")
    with Catalog.open(tmp_path / "copy", clock=embedded.clock) as copy:
        copy.repository("sales").branch("main").put("a", b"x")
        with pytest.raises(AnotherDatabase) as refused:
            copies.check(copy.workspace("sales"))
        assert refused.value.exit_code == 6
        assert "reclaim doctor --adopt-partitions REPO" in str(refused.value.hint)
        copies.adopt(copy.workspace("sales"), "adopted", [])
        copies.check(copy.workspace("sales"))
    embedded.open().home.check()


def test_a_database_named_from_the_working_folder(
    embedded: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy is refused wherever the process goes afterwards."""
    embedded.init().create_repository("sales")
    embedded.close()
    shutil.copytree(embedded.location, tmp_path / "copy")
    monkeypatch.chdir(tmp_path)
    with Catalog.open("sqlite:///copy/catalog.db", clock=embedded.clock) as copy:
        monkeypatch.chdir("/")
        with pytest.raises(AnotherDatabase, match="of which this one is a copy"):
            copies.check(copy.workspace("sales"))


def test_a_file_that_is_not_there_any_more_has_no_home(embedded: Backend, tmp_path: Path) -> None:
    catalog = embedded.init()
    catalog.create_repository("sales")
    workspace = catalog.workspace("sales")
    Path(embedded.location, "catalog.db").rename(tmp_path / "away.db")
    with pytest.raises(AnotherDatabase, match="was moved or deleted"):
        catalog.home.check()
    Path(tmp_path / "away.db").rename(Path(embedded.location, "catalog.db"))
    copies.check(workspace)


def test_a_database_that_was_moved_is_the_same(embedded: Backend, tmp_path: Path) -> None:
    embedded.init().create_repository("sales")
    embedded.close()
    Path(embedded.location).rename(tmp_path / "moved")
    file = tmp_path / "moved" / "catalog.db"
    database = sqlite3.connect(file)
    database.execute("VACUUM")
    database.close()
    with Catalog.open(tmp_path / "moved", clock=embedded.clock) as moved:
        moved.home.check()


def test_a_file_that_was_restored_is_another(embedded: Backend, tmp_path: Path) -> None:
    """Also where the file system gives it the number that the old one had."""
    embedded.init()
    embedded.close()
    file = Path(embedded.location) / "catalog.db"
    shutil.copy(file, tmp_path / "backup.db")
    file.unlink()
    shutil.copy(tmp_path / "backup.db", file)
    with pytest.raises(AnotherDatabase):
        embedded.open().home.check()


def test_facts_that_only_one_side_has_are_not_compared() -> None:
    whole = {"kind": "sqlite", "inode": "7", "born": "1"}
    assert same(whole, {"kind": "sqlite", "inode": "7"})
    assert not same(whole, {"kind": "sqlite", "inode": "7", "born": "2"})
    assert not same(whole, {"kind": "postgresql", "cluster": "7"})


@pytest.mark.parametrize("facts", [{}, {"kind": "sqlite"}, {"kind": "sqlite", "other": "7"}])
def test_facts_that_tell_nothing_are_nobodys(facts: dict[str, str], embedded: Backend) -> None:
    assert not same({"kind": "sqlite", "inode": "7"}, facts)
    catalog = embedded.init()
    document = json.loads(catalog.storage.get(addresses.HOME))
    catalog.storage.put(addresses.HOME, json.dumps(document | {"database": facts}).encode())
    with pytest.raises(AnotherDatabase) as caught:
        embedded.open().home.check()
    assert "--adopt-partitions" in (caught.value.hint or "")


def test_an_older_catalog_registers_when_it_is_first_written(backend: Backend) -> None:
    catalog = backend.init()
    catalog.create_repository("sales")
    catalog.storage.delete(addresses.HOME)
    with catalog._database.write() as connection:
        connection.execute(delete(catalog_info).where(catalog_info.c.key == REGISTERED))
    with backend.open() as reader:
        reader.home.check()
        assert not there(catalog)
    with backend.open() as writer:
        writer.repository("sales").branch("main").put("a", b"x")
        writer.home.check()
        assert there(catalog)


def test_a_copy_of_an_older_catalog_does_not_take_it_over(
    embedded: Backend, tmp_path: Path
) -> None:
    """The copy was made before the original registered."""
    catalog = embedded.init()
    catalog.create_repository("sales")
    with catalog._database.write() as connection:
        connection.execute(delete(catalog_info).where(catalog_info.c.key == REGISTERED))
    embedded.close()
    shutil.copytree(embedded.location, tmp_path / "copy")
    with Catalog.open(tmp_path / "copy", clock=embedded.clock) as copy:
        copy.repository("sales").branch("main").put("a", b"x")
        with pytest.raises(AnotherDatabase):
            copy.home.check()


def test_two_first_collectors_do_not_both_go_on(embedded: Backend) -> None:
    """A copy of an older catalog registers while this one is about to."""
    catalog = embedded.init()
    uid = catalog.create_repository("sales").uid
    registered = json.loads(catalog.storage.get(addresses.HOME))
    catalog.storage.delete(addresses.HOME)
    with catalog._database.write() as connection:
        connection.execute(delete(catalog_info).where(catalog_info.c.key == REGISTERED))
    copy = registered | {"database": registered["database"] | {"inode": "7"}}

    class Raced(StorageWrapper):
        def put(self, address: str, data: Payload, *, create: bool = False) -> None:
            if address == addresses.HOME and create:
                super().put(address, json.dumps(copy).encode())
            super().put(address, data, create=create)

    workspace = embedded.open(Raced).workspace("sales")
    with pytest.raises(AnotherDatabase):
        copies.count_run(workspace, "run")
    assert not [one for one in catalog.storage.list() if one.address == addresses.epoch(uid, 1)]


def there(catalog: Catalog) -> bool:
    return addresses.HOME in {stored.address for stored in catalog.storage.list()}


@pytest.mark.parametrize("left", [None, b"", b"[]", b'{"catalog": "x", "database": {}}'])
def test_a_registration_that_is_gone_or_damaged_is_refused(
    embedded: Backend, left: bytes | None
) -> None:
    catalog = embedded.init()
    catalog.storage.delete(addresses.HOME)
    if left is not None:
        catalog.storage.put(addresses.HOME, left)
    with pytest.raises(AnotherDatabase):
        embedded.open().home.check()
    catalog.home.register()
    embedded.open().home.check()


def test_a_database_that_may_not_be_asked(
    tmp_path: Path, clock: FakeClock, postgres: PostgreSQL
) -> None:
    """It has no identity, and is not refused; doctor says so."""
    url = postgres.new_database()
    account = f"account_{new_uid()}"
    with Catalog.init(url, storage=str(tmp_path / "objects"), clock=clock) as catalog:
        with catalog._database.write() as connection:
            connection.execute(text(f"CREATE ROLE {account} LOGIN"))
            connection.execute(text("REVOKE EXECUTE ON FUNCTION pg_control_system FROM PUBLIC"))
            for what in ("SCHEMA public", "ALL TABLES IN SCHEMA public"):
                connection.execute(text(f"GRANT ALL ON {what} TO {account}"))
        assert catalog.home.identity() is not None
    limited = url.replace("postgres:@", f"{account}:@")
    with Catalog.open(limited, clock=clock) as catalog:
        assert catalog.home.identity() is None
        catalog.home.check()
        [finding] = [one for one in examine(catalog, clock) if one.check == "home"]
        assert finding.level == Level.SKIPPED
