"""Policies stored with a repository, as documents."""

from __future__ import annotations

from sqlalchemy import Connection, Table, delete, insert, select

from reclaim.catalog.database.schema import lifecycle_policies, policies
from reclaim.catalog.refs import refs
from reclaim.catalog.workspace import Workspace


def store_policy(workspace: Workspace, document: str | None) -> None:
    """Store a retention policy, replacing any existing policy; None removes it."""
    _store(workspace, policies, document)


def stored_policy(workspace: Workspace) -> str | None:
    """Document of the stored retention policy, if any."""
    return _stored(workspace, policies)


def store_lifecycle(workspace: Workspace, document: str | None) -> None:
    """Store lifecycle rules, replacing existing rules; None removes them.

    Waits for a run about to promote under the old rules, and blocks later promotions: a run
    compares the rules under the same lock.
    """
    _store(workspace, lifecycle_policies, document)


def stored_lifecycle(workspace: Workspace) -> str | None:
    """Document of the stored lifecycle rules, if any."""
    return _stored(workspace, lifecycle_policies)


def _store(workspace: Workspace, table: Table, document: str | None) -> None:
    uid = workspace.repo_uid

    def work(connection: Connection) -> None:
        # Serialized: two concurrent changes would both find no row to replace.
        refs.check_repository(connection, uid, lock=True)
        connection.execute(delete(table).where(table.c.repo_uid == uid))
        if document is not None:
            connection.execute(insert(table).values(repo_uid=uid, document=document))

    workspace.database.transact(work)


def _stored(workspace: Workspace, table: Table) -> str | None:
    query = select(table.c.document).where(table.c.repo_uid == workspace.repo_uid)
    with workspace.database.read() as connection:
        document: str | None = connection.execute(query).scalar()
    return document
