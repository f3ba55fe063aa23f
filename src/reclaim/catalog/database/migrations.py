"""The version of the schema, and the steps from each version to the next.

A fresh catalog is made at the newest version. An older one is brought forward when it is
opened, each step in its own transaction; a newer one is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from sqlalchemy import Connection, insert, select, text, update

from reclaim.catalog.database.schema import (
    catalog_info,
    claimed_addresses,
    claims,
    commits,
    epoch_writers,
    lifecycle_policies,
    locks,
    metadata,
    plans,
    policies,
    protected_paths,
    reaped,
    repositories,
    repository_settings,
)
from reclaim.catalog.database.transactions import Database
from reclaim.clock import from_micros
from reclaim.errors import Corrupt, UnknownVersion
from reclaim.model import instant_text

Step = Callable[[Connection], None]

FIRST_VERSION = 1


def _collecting(connection: Connection) -> None:
    """Locks, commits that are not live, and where runs keep their records."""
    locks.create(connection)
    connection.execute(text("ALTER TABLE runs ADD COLUMN place TEXT NOT NULL DEFAULT ''"))
    for index in commits.indexes:
        if index.name == "commits_not_live":
            index.create(connection)


def _evidence(connection: Connection) -> None:
    """How far each writer has counted, and where commits in flight write to."""
    epoch_writers.create(connection)
    counted = select(repositories.c.uid, repositories.c.epoch_writer, repositories.c.epoch)
    connection.execute(
        insert(epoch_writers).from_select(
            ["repo_uid", "writer", "epoch"], counted.where(repositories.c.epoch > 0)
        )
    )
    collation = "" if connection.dialect.name == "sqlite" else ' COLLATE "C"'
    word = "VARCHAR" if connection.dialect.name == "sqlite" else "TEXT"
    connection.execute(
        text(f"ALTER TABLE staging_tokens ADD COLUMN partition_id {word}{collation}")
    )


def _plans(connection: Connection) -> None:
    """Add the table of digests of plans."""
    plans.create(connection)


def _staged_paths(connection: Connection) -> None:
    """Under which paths uploads were staged; of earlier ones that is not known."""
    connection.execute(text("ALTER TABLE ledger ADD COLUMN path TEXT"))


def _policies(connection: Connection) -> None:
    """Add the table of policies that are stored with their repositories."""
    policies.create(connection)


def _hard_delete(connection: Connection) -> None:
    """Settings of repositories, sizes in the ledger, and what the reaper has deleted."""
    repository_settings.create(connection)
    reaped.create(connection)
    connection.execute(text("ALTER TABLE ledger ADD COLUMN size BIGINT"))


def _protected_paths(connection: Connection) -> None:
    """Add the table of paths that the setting `protect` matched."""
    protected_paths.create(connection)


def _lifecycle(connection: Connection) -> None:
    """Lifecycle rules of repositories, and what runs claim by them."""
    for table in (lifecycle_policies, claims, claimed_addresses):
        table.create(connection)


def _lock_process(connection: Connection) -> None:
    """Which process holds a lock; of locks that are held now that is not known."""
    connection.execute(text("ALTER TABLE locks ADD COLUMN process TEXT"))


def _run_records(connection: Connection) -> None:
    """The record of a run in one column. A record is migrated when it is read."""
    connection.execute(text("ALTER TABLE runs RENAME COLUMN summary TO record"))
    columns = "id, kind, state, started_at, place, record"
    for row in connection.execute(text(f"SELECT {columns} FROM runs")).all():
        try:
            summary = json.loads(row.record)
            operators = summary.pop("operators", [])
        except (ValueError, AttributeError, TypeError):
            # It cannot be read, and stays as it is.
            continue
        record = {
            "kind": row.kind,
            "state": row.state,
            "started_at": instant_text(from_micros(row.started_at)),
            "summary": summary,
            "place": row.place,
            "operators": operators,
        }
        connection.execute(
            text("UPDATE runs SET record = :record WHERE id = :id"),
            {"record": json.dumps(record), "id": row.id},
        )
    for column in ("kind", "state", "place"):
        connection.execute(text(f"ALTER TABLE runs DROP COLUMN {column}"))


STEPS: tuple[Step, ...] = (
    _collecting,
    _evidence,
    _plans,
    _staged_paths,
    _policies,
    _hard_delete,
    _protected_paths,
    _lifecycle,
    _lock_process,
    _run_records,
)
"""``STEPS[n]`` brings version ``FIRST_VERSION + n`` to the one after it."""


def newest() -> int:
    """The version that this code reads and writes."""
    return FIRST_VERSION + len(STEPS)


def create(connection: Connection) -> None:
    """Make the tables of a fresh catalog, in a database that has none by their names."""
    metadata.create_all(connection, checkfirst=False)
    connection.execute(insert(catalog_info).values(key="schema_version", value=str(newest())))


def migrate(database: Database) -> None:
    """Bring the schema to the newest version."""
    while True:
        with database.read() as connection:
            version = _version(connection, database.name)
        if version == newest():
            return
        if version > newest():
            raise UnknownVersion(
                f"the catalog {database.name} has schema version {version}; "
                f"this Reclaim knows versions up to {newest()}",
                hint="upgrade Reclaim",
            )
        with database.write() as connection:
            # Another process may have taken this step while we waited for the lock.
            row = catalog_info.c.key == "schema_version"
            held = select(catalog_info.c.value).where(row).with_for_update()
            if int(connection.execute(held).scalar_one()) != version:
                continue
            STEPS[version - FIRST_VERSION](connection)
            connection.execute(update(catalog_info).where(row).values(value=str(version + 1)))


def _version(connection: Connection, name: str) -> int:
    query = select(catalog_info.c.value).where(catalog_info.c.key == "schema_version")
    value = connection.execute(query).scalar()
    if value is None or not value.isdigit() or int(value) < FIRST_VERSION:
        raise Corrupt(f"the catalog {name} does not say its schema version")
    return int(value)
