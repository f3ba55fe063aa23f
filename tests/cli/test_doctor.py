"""Doctor: each thing that it looks at, found when it is there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from reclaim.catalog import Catalog
from reclaim.catalog.database.schema import runs
from reclaim.model import SnapshotId
from reclaim.run.doctor import doctor as examining
from reclaim.run.doctor import environment
from reclaim.run_record import Phase, RunRecord
from reclaim.stores.catalog import CatalogStore
from reclaim.stores.findings import Finding, Level
from tests.cli.conftest import CommandLine


@pytest.fixture
def used(cli: CommandLine) -> None:
    cli.ok("put", "-", "sales/main/a", stdin=b"x")
    cli.ok("commit", "sales/main", "-m", "First")


def findings(cli: CommandLine, *args: str) -> dict[str, dict[str, Any]]:
    result = cli("doctor", *args, "--json")
    document = result.json
    found = {one["check"]: one for one in document["findings"]}
    worst = max(one["exit_code"] for one in found.values())
    assert (result.code, document["healthy"]) == (worst, not worst)
    assert all(one["sentence"] for one in found.values())
    return found


def test_all_is_well(cli: CommandLine, used: None) -> None:
    found = findings(cli, "--deep")
    assert {one["level"] for one in found.values()} == {"ok"}
    expected = "java spark database permissions home storage clock partitions runs objects"
    assert set(found) == set(expected.split())
    assert "Problems: 0, warnings: 0." in cli.ok("doctor").out


def test_a_database_that_others_can_read(cli: CommandLine, used: None, location: Path) -> None:
    (location / "catalog.db").chmod(0o644)
    found = findings(cli)["permissions"]
    assert (found["level"], found["exit_code"]) == ("warning", 0)
    assert f"chmod 600 {location / 'catalog.db'}" in found["hint"]


def test_without_a_catalog(bare: CommandLine, tmp_path: Path) -> None:
    found = findings(bare, "--catalog", str(tmp_path))
    assert (found["catalog"]["level"], found["catalog"]["exit_code"]) == ("problem", 3)


def test_a_storage_that_is_gone(cli: CommandLine, used: None, location: Path) -> None:
    shutil.rmtree(location / "objects")
    assert findings(cli)["catalog"]["level"] == "problem"


def test_a_missing_container(cli: CommandLine, used: None, location: Path) -> None:
    for file in location.glob("objects/repos/*/_reclaim/meta/*/*"):
        file.unlink()
    found = findings(cli)["objects"]
    assert (found["level"], found["exit_code"]) == ("problem", 8)
    assert "live objects are missing" in found["sentence"]
    assert "restore" in found["hint"]


def test_missing_data_is_found_when_asked_for(cli: CommandLine, used: None, location: Path) -> None:
    [file] = [f for f in location.glob("objects/repos/*/branches/**/*") if f.is_file()]
    file.unlink()
    assert findings(cli)["objects"]["level"] == "ok"
    found = findings(cli, "--deep")["objects"]
    assert (found["level"], found["exit_code"]) == ("problem", 8)
    assert file.name in found["sentence"]


def test_missing_data_of_what_is_staged(cli: CommandLine, used: None, location: Path) -> None:
    files = set(location.glob("objects/repos/*/branches/**/*"))
    cli.ok("put", "-", "sales/main/staged", stdin=b"y")
    [file] = [f for f in set(location.glob("objects/repos/*/branches/**/*")) - files if f.is_file()]
    assert findings(cli, "--deep")["objects"]["level"] == "ok"
    file.unlink()
    found = findings(cli, "--deep")["objects"]
    assert (found["level"], found["exit_code"]) == ("problem", 8)
    assert file.name in found["sentence"]


def flip(file: Path) -> None:
    """Change one bit in the middle of a file."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def test_damaged_bytes_are_found_when_asked_for(
    cli: CommandLine, used: None, location: Path
) -> None:
    cli.ok("put", "-", "sales/main/staged", stdin=b"y")
    sound = findings(cli, "--deep", "--bytes")["bytes"]
    assert (sound["level"], sound["sentence"].split()[0]) == ("ok", "2")
    for file in location.glob("objects/repos/*/branches/**/*"):
        if file.is_file():
            flip(file)
    assert "bytes" not in findings(cli, "--deep")
    found = findings(cli, "--deep", "--bytes")["bytes"]
    assert (found["level"], found["exit_code"]) == ("problem", 8)
    assert found["sentence"].startswith("2 live objects are damaged: a (repos/")
    assert ", staged (repos/" in found["sentence"]
    assert "restore" in found["hint"]
    cli.fails("invalid_input", 2, "doctor", "--bytes")


def test_what_has_no_checksum_is_said_to_have_none(cli: CommandLine, catalog: Catalog) -> None:
    main = catalog.repository("sales").branch("main")
    physical = main.get_physical_address("physical")
    catalog.storage.put(physical.address, b"abc")
    main.link_physical_address("physical", physical)
    found = findings(cli, "--deep", "--bytes")["bytes"]
    assert (found["level"], found["exit_code"]) == ("ok", 0)
    assert "of 1 more objects only the size is known" in found["sentence"]


def test_a_storage_ahead_of_the_database(
    cli: CommandLine, location: Path, tmp_path: Path, plain: None
) -> None:
    cli.ok("put", "-", "sales/main/a", stdin=b"x")
    shutil.copy(location / "catalog.db", tmp_path / "backup.db")
    cli.ok("put", "-", "sales/main/b", stdin=b"y")
    cli.ok("put", "-", "sales/main/c", stdin=b"z")
    for file in location.glob("catalog.db*"):
        file.unlink()
    shutil.copy(tmp_path / "backup.db", location / "catalog.db")

    for check in ("partitions", "home"):
        found = findings(cli)[check]
        assert (found["level"], found["exit_code"]) == ("problem", 6)
    cli.fails("storage_ahead", 6, "plan", "sales")
    asked = ("doctor", "--adopt-partitions", "sales")
    assert cli(*asked).code == 6
    assert findings(cli)["partitions"]["level"] == "problem"
    assert len(cli.ok(*asked, "--yes", "--json").json["adopted"]) == 2
    assert findings(cli)["partitions"]["level"] == findings(cli)["home"]["level"] == "ok"
    assert cli.ok("plan", "sales", "--min-age", "0", "--json").json["candidates"] == 2
    cli.ok("put", "-", "sales/main/d", stdin=b"!")


def test_what_died_is_named(cli: CommandLine, used: None, catalog: Catalog) -> None:
    newest, oldest = catalog.repository("sales").log("main")
    catalog.repository("sales").branch("main").reset_to(oldest.id)
    store = CatalogStore(catalog.workspace("sales"))
    with store.lock("a run") as held:
        assert held.condemn({SnapshotId(newest.id): "a rule"}) == 1
        held.start(RunRecord("a run", "collect", Phase.STARTED, store.clock.now(), "a place"))
        assert "marks" not in findings(cli)
    found = findings(cli)
    assert found["marks"]["level"] == "warning"
    assert found["runs"]["sentence"] == "run a run is unfinished (started)"
    assert "reclaim apply a place" in found["runs"]["hint"]


@pytest.mark.parametrize(
    ("found", "level"),
    [
        (None, Level.SKIPPED),
        ([], Level.OK),
        (["versioning of b is enabled: old versions stay"], Level.WARNING),
    ],
)
def test_a_bucket_that_frees_nothing(
    found: list[str] | None, level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "kept_by_bucket", lambda _: found)
    [one] = examining._bucket("s3://b/prefix")
    assert isinstance(one, Finding)
    assert one.level == level
    assert not list(examining._bucket("file:///b"))


@pytest.mark.parametrize(("text", "number"), [("17.0.15", 17), ("1.8.0_392", 8), ("", 0)])
def test_versions_of_java(text: str, number: int) -> None:
    assert environment.major(text) == number


def test_a_record_of_a_run_that_cannot_be_read(
    cli: CommandLine, used: None, catalog: Catalog
) -> None:
    cli.ok("gc", "sales")
    run = cli.ok("runs", "sales", "--json").json["runs"][0]["id"]
    with catalog.repository("sales")._workspace.database.write() as connection:
        connection.execute(update(runs).values(record=""))
    found = findings(cli)["records"]
    assert (found["level"], found["exit_code"]) == ("problem", 6)
    assert f"the record of run {run} in the database cannot be read" in found["sentence"]
    assert found["hint"] == "restore the database from a backup"
    error = cli.fails("refused", 6, "gc", "sales")
    assert found["sentence"] == error["message"]
