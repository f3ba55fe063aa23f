"""Schema version, and the migration steps between versions.

A new catalog gets the newest version. An older catalog is migrated when opened, each step in its
own transaction; a newer version is refused.
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
    """Add locks, an index of commits that are not live, and the location of run records."""
    locks.create(connection)
    connection.execute(text("ALTER TABLE runs ADD COLUMN place TEXT NOT NULL DEFAULT ''"))
    for index in commits.indexes:
        if index.name == "commits_not_live":
            index.create(connection)


def _evidence(connection: Connection) -> None:
    """Add the last epoch of each writer, and the partition of commits in progress."""
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
    """Add the table of plan digests."""
    plans.create(connection)


def _staged_paths(connection: Connection) -> None:
    """Add the path at which an upload was staged; unknown for earlier uploads."""
    connection.execute(text("ALTER TABLE ledger ADD COLUMN path TEXT"))


def _policies(connection: Connection) -> None:
    """Add the table of policies stored with their repositories."""
    policies.create(connection)


def _hard_delete(connection: Connection) -> None:
    """Add repository settings, sizes in the ledger, and totals of the reaper."""
    repository_settings.create(connection)
    reaped.create(connection)
    connection.execute(text("ALTER TABLE ledger ADD COLUMN size BIGINT"))


def _protected_paths(connection: Connection) -> None:
    """Add the table of paths matched by the setting `protect`."""
    protected_paths.create(connection)


def _lifecycle(connection: Connection) -> None:
    """Add lifecycle rules of repositories, and the claims of their runs."""
    for table in (lifecycle_policies, claims, claimed_addresses):
        table.create(connection)


def _lock_process(connection: Connection) -> None:
    """Add the process holding a lock; unknown for locks already held."""
    connection.execute(text("ALTER TABLE locks ADD COLUMN process TEXT"))


def _run_records(connection: Connection) -> None:
    """Move the record of a run to a single column. Records are migrated when read."""
    connection.execute(text("ALTER TABLE runs RENAME COLUMN summary TO record"))
    columns = "id, kind, state, started_at, place, record"
    for row in connection.execute(text(f"SELECT {columns} FROM runs")).all():
        try:
            summary = json.loads(row.record)
            operators = summary.pop("operators", [])
        except (ValueError, AttributeError, TypeError):
            # Unreadable records stay unchanged.
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
"""``STEPS[n]`` migrates version ``FIRST_VERSION + n`` to the next."""


def newest() -> int:
    """Version read and written by this code."""
    return FIRST_VERSION + len(STEPS)


def create(connection: Connection) -> None:
    """Create the tables of a new catalog in a database without tables of the same names."""
    metadata.create_all(connection, checkfirst=False)
    connection.execute(insert(catalog_info).values(key="schema_version", value=str(newest())))


def migrate(database: Database) -> None:
    """Migrate the schema to the newest version."""
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
            # Another process may have completed this step during the wait for the lock.
            row = catalog_info.c.key == "schema_version"
            locked = select(catalog_info.c.value).where(row).with_for_update()
            if int(connection.execute(locked).scalar_one()) != version:
                continue
            STEPS[version - FIRST_VERSION](connection)
            connection.execute(update(catalog_info).where(row).values(value=str(version + 1)))


def _version(connection: Connection, name: str) -> int:
    query = select(catalog_info.c.value).where(catalog_info.c.key == "schema_version")
    value = connection.execute(query).scalar()
    if value is None or not value.isdigit() or int(value) < FIRST_VERSION:
        raise Corrupt(f"the catalog {name} has no valid schema version")
    return int(value)
