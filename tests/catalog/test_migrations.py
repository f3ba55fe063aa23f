"""The version of the schema: fresh, older, newer, and steps that fail or race."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from sqlalchemy import Connection, delete, insert, inspect, select, text, update

from reclaim.catalog import Catalog
from reclaim.catalog.database import migrations
from reclaim.catalog.database.migrations import Step
from reclaim.catalog.database.schema import (
    catalog_info,
    epoch_writers,
    ledger,
    plans,
    policies,
    protected_paths,
)
from reclaim.catalog.database.transactions import Database
from reclaim.errors import Corrupt, ReclaimError, Refused, UnknownVersion
from reclaim.run_record import Phase
from reclaim.stores.catalog import CatalogStore
from tests.catalog import raw
from tests.conftest import Backend

VERSION = catalog_info.c.key == "schema_version"


def note(key: str) -> Step:
    """A step that can be seen in the database."""

    def step(connection: Connection) -> None:
        connection.execute(insert(catalog_info).values(key=key, value="done"))

    return step


def failing(connection: Connection) -> None:
    connection.execute(insert(catalog_info).values(key="half", value="done"))
    connection.execute(text("CREATE TABLE half_made (id INTEGER)"))
    raise RuntimeError("the step broke")


def info(database: Database) -> dict[str, str]:
    with database.read() as connection:
        return {row.key: row.value for row in connection.execute(select(catalog_info))}


def notes(database: Database) -> tuple[str, set[str]]:
    """The version, and the steps that were taken."""
    found = info(database)
    return found["schema_version"], {key for key, value in found.items() if value == "done"}


def stamp(database: Database, version: str) -> None:
    with database.write() as connection:
        connection.execute(update(catalog_info).where(VERSION).values(value=version))


@pytest.fixture
def database(catalog: Catalog) -> Database:
    return catalog._database


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Adds steps after those that there are."""

    def add(*added: Step) -> None:
        monkeypatch.setattr(migrations, "STEPS", (*migrations.STEPS, *added))

    return add


def test_a_fresh_catalog_has_the_newest_version(database: Database) -> None:
    assert info(database)["schema_version"] == str(migrations.newest())
    assert migrations.newest() == migrations.FIRST_VERSION + len(migrations.STEPS)


def test_a_catalog_of_the_newest_version_is_left_alone(
    backend: Backend, database: Database
) -> None:
    before = info(database)
    backend.open()
    assert info(database) == before


def test_a_fresh_catalog_takes_no_steps(backend: Backend, steps: Callable[..., None]) -> None:
    steps(failing)
    version, taken = notes(backend.init()._database)
    assert (version, taken) == (str(migrations.newest()), set())


def test_an_older_catalog_is_brought_forward_when_it_is_opened(
    backend: Backend, catalog: Catalog, database: Database, steps: Callable[..., None]
) -> None:
    main = catalog.create_repository("sales").branch("main")
    main.put("a", b"1")
    before = migrations.newest()
    steps(note("one"), note("two"))
    opened = backend.open()
    assert notes(database) == (str(before + 2), {"one", "two"})
    assert opened.repository("sales").branch("main").get("a") == b"1"
    backend.open()
    assert notes(database) == (str(before + 2), {"one", "two"})


def test_a_step_that_fails_leaves_nothing_behind(
    backend: Backend,
    database: Database,
    steps: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = migrations.newest()
    steps(note("one"), failing)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="the step broke"):
            backend.open()
        assert notes(database) == (str(before + 1), {"one"})
        with database.read() as connection:
            assert not connection.dialect.has_table(connection, "half_made")
    # Once it is mended the next opener finishes the job.
    monkeypatch.setattr(migrations, "STEPS", (*migrations.STEPS[:-1], note("mended")))
    backend.open()
    assert notes(database) == (str(before + 2), {"one", "mended"})


def test_a_step_that_the_database_refuses_is_told_in_our_words(
    backend: Backend, database: Database, steps: Callable[..., None]
) -> None:
    before = info(database)

    def wrong(connection: Connection) -> None:
        connection.execute(text("ALTER TABLE no_such_thing ADD COLUMN x INTEGER"))

    steps(wrong)
    with pytest.raises(ReclaimError):
        backend.open()
    assert info(database) == before


def test_openers_at_the_same_time_take_each_step_once(
    backend: Backend, database: Database, steps: Callable[..., None]
) -> None:
    openers = 4
    together = threading.Barrier(openers)
    taken: list[str] = []

    def counted(name: str) -> Step:
        def step(connection: Connection) -> None:
            taken.append(name)
            time.sleep(0.05)
            note(name)(connection)

        return step

    before = migrations.newest()
    steps(counted("one"), counted("two"))

    def opening() -> None:
        together.wait()
        with Catalog.open(backend.location, clock=backend.clock, wrap_storage=backend.wrap):
            pass

    with ThreadPoolExecutor(openers) as pool:
        for done in [pool.submit(opening) for _ in range(openers)]:
            done.result()
    assert taken == ["one", "two"]
    assert notes(database) == (str(before + 2), {"one", "two"})


def test_a_catalog_from_before_plans_were_noted(
    backend: Backend, catalog: Catalog, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 2 comes to the same tables as a fresh catalog."""
    until = migrations.STEPS.index(migrations._plans) + 1
    monkeypatch.setattr(migrations, "STEPS", migrations.STEPS[:until])
    catalog.create_repository("sales")

    def columns() -> list[tuple[str, str]]:
        with database.read() as connection:
            found = inspect(connection)
            names = [(one["name"], str(one["type"])) for one in found.get_columns("plans")]
            return names + [(str(one["name"]), "") for one in found.get_indexes("plans")]

    fresh = columns()
    with database.write() as connection:
        plans.drop(connection)
    stamp(database, str(migrations.newest() - 1))
    opened = CatalogStore(backend.open().workspace("sales"))
    assert columns() == fresh
    opened.record_plan("run", "digest")
    assert opened.recorded_plan("run") == "digest"


def test_a_catalog_from_before_staged_paths_were_noted(
    backend: Backend, catalog: Catalog, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was uploaded before has no path, and what is uploaded afterwards has."""
    until = migrations.STEPS.index(migrations._staged_paths) + 1
    monkeypatch.setattr(migrations, "STEPS", migrations.STEPS[:until])
    catalog.create_repository("sales").branch("main").put("a", b"1")
    with database.write() as connection:
        connection.execute(text("ALTER TABLE ledger DROP COLUMN path"))
    stamp(database, str(migrations.newest() - 1))
    repo = backend.open().repository("sales")
    repo.branch("main").put("b", b"2")
    assert {row.path for row in raw.rows(repo, ledger)} == {None, "b"}


def test_a_catalog_from_before_policies_were_stored(
    backend: Backend, catalog: Catalog, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 5 comes to the same tables as a fresh catalog, and has no policy yet."""
    until = migrations.STEPS.index(migrations._policies) + 1
    monkeypatch.setattr(migrations, "STEPS", migrations.STEPS[:until])
    catalog.create_repository("sales")
    fresh = columns(database)
    with database.write() as connection:
        policies.drop(connection)
    stamp(database, str(migrations.newest() - 1))
    opened = CatalogStore(backend.open().workspace("sales"))
    assert columns(database) == fresh
    assert opened.stored_policy() is None
    opened.store_policy("rules")
    assert opened.stored_policy() == "rules"


def test_a_catalog_from_before_protected_paths_were_noted(
    backend: Backend, catalog: Catalog, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 7 comes to the same tables as a fresh catalog."""
    until = migrations.STEPS.index(migrations._protected_paths) + 1
    monkeypatch.setattr(migrations, "STEPS", migrations.STEPS[:until])
    catalog.create_repository("sales").change_settings(protect=("raw/*",))
    fresh = columns(database)
    with database.write() as connection:
        protected_paths.drop(connection)
    stamp(database, str(migrations.newest() - 1))
    repo = backend.open().repository("sales")
    assert columns(database) == fresh
    main = repo.branch("main")
    main.put("a", b"1")
    main.move("a", "raw/a")
    main.delete("raw/a")
    assert {row.path for row in raw.rows(repo, protected_paths)} == {"raw/a"}


def test_a_newer_catalog_is_refused_and_left_alone(backend: Backend, database: Database) -> None:
    stamp(database, str(migrations.newest() + 1))
    before = info(database)
    with pytest.raises(UnknownVersion, match=f"schema version {migrations.newest() + 1};") as error:
        backend.open()
    assert error.value.hint == "upgrade Reclaim"
    assert info(database) == before


def test_a_catalog_without_a_version_is_corrupt(backend: Backend, database: Database) -> None:
    for version in ("", "x", "0", "-1", "1.5"):
        stamp(database, version)
        with pytest.raises(Corrupt, match="has no valid schema version"):
            backend.open()
    with database.write() as connection:
        connection.execute(delete(catalog_info).where(VERSION))
    with pytest.raises(Corrupt, match="has no valid schema version"):
        backend.open()


def columns(database: Database) -> dict[str, dict[str, str]]:
    """table → column → type."""
    with database.read() as connection:
        found = inspect(connection)
        return {
            table: {column["name"]: str(column["type"]) for column in found.get_columns(table)}
            for table in found.get_table_names()
        }


def split_records(connection: Connection) -> None:
    """The table of runs from before a record had one column."""
    connection.execute(text("ALTER TABLE runs RENAME COLUMN record TO summary"))
    for column in ("kind VARCHAR", "state VARCHAR", "place TEXT"):
        line = f"ALTER TABLE runs ADD COLUMN {column} NOT NULL DEFAULT ''"
        connection.execute(text(line))


def test_writers_of_epochs_and_partitions_of_commits(
    backend: Backend, catalog: Catalog, database: Database
) -> None:
    """Version 2 knew neither; what it left in the storage is not taken for a copy's."""
    fresh = columns(database)
    with backend.open() as before:
        main = before.repository(catalog.create_repository("sales").name).branch("main")
        main.put("a", b"1")
    with database.write() as connection:
        connection.execute(text("DROP TABLE epoch_writers"))
        connection.execute(text("DROP TABLE plans"))
        connection.execute(text("DROP TABLE policies"))
        connection.execute(text("DROP TABLE repository_settings"))
        connection.execute(text("DROP TABLE reaped"))
        for table in ("claims", "claimed_addresses", "lifecycle_policies"):
            connection.execute(text(f"DROP TABLE {table}"))
        connection.execute(text("DROP TABLE protected_paths"))
        split_records(connection)
        connection.execute(text("ALTER TABLE locks DROP COLUMN process"))
        connection.execute(text("ALTER TABLE ledger DROP COLUMN size"))
        connection.execute(text("ALTER TABLE staging_tokens DROP COLUMN partition_id"))
        connection.execute(text("ALTER TABLE ledger DROP COLUMN path"))
    stamp(database, "2")
    opened = backend.open()
    assert columns(database) == fresh
    repo = opened.repository("sales")
    assert [row.epoch for row in raw.rows(repo, epoch_writers)] == [2]
    repo.branch("main").commit("one")
    assert repo.branch("main").get("a") == b"1"


def test_a_lock_from_before_processes_were_noted(
    backend: Backend, catalog: Catalog, database: Database
) -> None:
    """A lock without a process is not released."""
    fresh = columns(database)
    catalog.create_repository("sales")
    with CatalogStore(catalog.workspace("sales")).lock("run"):
        with database.write() as connection:
            split_records(connection)
            connection.execute(text("ALTER TABLE locks DROP COLUMN process"))
        step = migrations.STEPS.index(migrations._lock_process)
        stamp(database, str(migrations.FIRST_VERSION + step))
        opened = CatalogStore(backend.open().workspace("sales"))
        assert columns(database) == fresh
        lock = opened.lock_state()
        assert lock is not None
        assert lock.process is None
        with pytest.raises(Refused, match="does not name the process"):
            opened.release_lock(lock)


def test_records_of_runs_from_before_they_had_one_column(
    backend: Backend, catalog: Catalog, database: Database
) -> None:
    """A run keeps what its row said; a summary that cannot be read stays as it is."""
    fresh = columns(database)
    repo = catalog.create_repository("sales")
    summaries = {
        "done": json.dumps({"quarantine": "moved", "objects": 3, "operators": []}),
        "damaged": "{",
    }
    with database.write() as connection:
        split_records(connection)
        for name, summary in summaries.items():
            row = {"id": name, "uid": repo.uid, "summary": summary}
            connection.execute(
                text(
                    "INSERT INTO runs (id, repo_uid, started_at, summary, kind, state, place) "
                    "VALUES (:id, :uid, 1000000, :summary, 'collect', 'done', 'somewhere')"
                ),
                row,
            )
    step = migrations.STEPS.index(migrations._run_records)
    stamp(database, str(migrations.FIRST_VERSION + step))
    store = CatalogStore(backend.open().workspace("sales"))
    assert columns(database) == fresh
    found = {run.id: run for run in store.runs()}
    done = found["done"]
    assert (done.kind, done.phase, done.place) == ("collect", Phase.DONE, "somewhere")
    assert done.started_at == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert done.promised is not None
    assert done.counts.objects == 3
    assert found["damaged"].phase is Phase.UNREADABLE


def test_tables_of_lifecycle_rules(
    backend: Backend, catalog: Catalog, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions had none: there are no rules, and nothing is claimed."""
    until = migrations.STEPS.index(migrations._lifecycle) + 1
    monkeypatch.setattr(migrations, "STEPS", migrations.STEPS[:until])
    fresh = columns(database)
    catalog.create_repository("sales")
    with database.write() as connection:
        for table in ("claims", "claimed_addresses", "lifecycle_policies"):
            connection.execute(text(f"DROP TABLE {table}"))
    stamp(database, str(migrations.FIRST_VERSION + migrations.STEPS.index(migrations._lifecycle)))
    opened = backend.open()
    assert columns(database) == fresh
    store = CatalogStore(opened.workspace("sales"))
    assert store.stored_lifecycle() is None
    store.store_lifecycle("rules")
    assert store.stored_lifecycle() == "rules"
    assert not store.expired_by()
