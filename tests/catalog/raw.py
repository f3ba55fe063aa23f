"""Hooks that go around the code under test: straight to the rows and the bytes."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select, update

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


def rows(repo: Repository, table: Any) -> list[Any]:
    """All rows of a table."""
    with repo._workspace.database.read() as connection:
        return list(connection.execute(select(table)))


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


def objects(repo: Repository) -> set[str]:
    """Every address of the repository in the storage."""
    prefix = f"repos/{repo.uid}"
    return {stored.address for stored in repo._workspace.storage.list(prefix)}
