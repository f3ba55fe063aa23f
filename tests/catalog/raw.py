"""Hooks that go around the code under test: straight to the rows and the bytes."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from contextlib import closing
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Dialect, Table, select, update

from reclaim.catalog import Repository
from reclaim.catalog.database.schema import (
    CommitState,
    PartitionState,
    commits,
    ledger,
    partitions,
    staged_entries,
    staging_tokens,
)


def rows(repo: Repository, table: Table) -> list[Any]:
    """All rows of a table."""
    database = repo._workspace.database
    if not database.is_sqlite:
        with database.read() as connection:
            return list(connection.execute(select(table)))
    # It is asked for thousands of times, of tables of a few rows.
    row_type, converters = _shape(table, database._engine.dialect)
    with closing(database._engine.raw_connection()) as raw:
        cursor = raw.cursor()
        # By name: in a database that was migrated they have another order.
        names = ", ".join(f'"{column.name}"' for column in table.columns)
        cursor.execute(f"SELECT {names} FROM {table.name}")
        return [
            row_type(*(convert(value) for convert, value in zip(converters, row, strict=True)))
            for row in cursor.fetchall()
        ]


@lru_cache
def _shape(table: Table, dialect: Dialect) -> tuple[Any, list[Callable[[Any], Any]]]:
    """A type for the rows of a table, and for each column what its values become."""
    types = (column.type.dialect_impl(dialect) for column in table.columns)
    converters: list[Callable[[Any], Any]] = [
        kind.result_processor(dialect, None) or (lambda value: value) for kind in types
    ]
    return namedtuple(table.name, table.columns.keys()), converters


def ledger_states(repo: Repository) -> dict[str, str]:
    """address → state."""
    return {row.address: row.state for row in rows(repo, ledger)}


def token_states(repo: Repository) -> dict[int, str]:
    """The tokens that still have rows, or may get some."""
    return {row.id: row.state for row in rows(repo, staging_tokens) if not row.cleaned}


def staged_paths(repo: Repository) -> list[tuple[int, str]]:
    return sorted((row.token_id, row.path) for row in rows(repo, staged_entries))


def condemn(repo: Repository, commit_id: str, state: CommitState = CommitState.CONDEMNED) -> None:
    """What a collector's condemn does to a commit."""
    with repo._workspace.database.write() as connection:
        mark(connection, commit_id, state)


def mark(connection: Connection, commit_id: str, state: CommitState) -> None:
    row = update(commits).where(commits.c.id == commit_id)
    connection.execute(row.values(state=state, run_id="run-7", rule="expired after 30 days"))


def close_partitions(repo: Repository) -> None:
    """What a collector does to overdue partitions."""
    with repo._workspace.database.write() as connection:
        connection.execute(
            update(partitions)
            .where(partitions.c.repo_uid == repo.uid)
            .values(state=PartitionState.CLOSED, closed_at=0)
        )


def partition_of(address: str) -> str:
    """The partition that an object or a container lies in, by its address."""
    return address.split("/")[-2]


def objects(repo: Repository) -> set[str]:
    """Every address of the repository in the storage."""
    prefix = f"repos/{repo.uid}"
    return {stored.address for stored in repo._workspace.storage.list(prefix)}
