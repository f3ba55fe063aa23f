"""The policies that are stored with a repository, as documents that others can read."""

from __future__ import annotations

from sqlalchemy import Connection, Table, delete, insert, select

from reclaim.catalog.database.schema import lifecycle_policies, policies
from reclaim.catalog.refs import refs
from reclaim.catalog.workspace import Workspace


def store_policy(workspace: Workspace, document: str | None) -> None:
    """Store a policy of retention in place of the one that there is; None removes it."""
    _store(workspace, policies, document)


def stored_policy(workspace: Workspace) -> str | None:
    """The document of the policy of retention, if one is stored."""
    return _stored(workspace, policies)


def store_lifecycle(workspace: Workspace, document: str | None) -> None:
    """Store lifecycle rules in place of those that there are; None removes them.

    It waits for a run that is about to promote by the old ones, and then holds that up: a run
    compares them under the same lock.
    """
    _store(workspace, lifecycle_policies, document)


def stored_lifecycle(workspace: Workspace) -> str | None:
    """The document of the lifecycle rules, if any are stored."""
    return _stored(workspace, lifecycle_policies)


def _store(workspace: Workspace, table: Table, document: str | None) -> None:
    uid = workspace.repo_uid

    def work(connection: Connection) -> None:
        # One after the other: two at once would both find no row to replace.
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
