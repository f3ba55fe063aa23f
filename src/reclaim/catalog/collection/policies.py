"""The policy that is stored with a repository, as a document that others can read."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select

from reclaim.catalog.database.schema import policies
from reclaim.catalog.refs import refs
from reclaim.catalog.workspace import Workspace


def store_policy(workspace: Workspace, document: str | None) -> None:
    """Store a policy in place of the one that there is; None removes it."""
    uid = workspace.repo_uid

    def work(connection: Connection) -> None:
        # One after the other: two at once would both find no row to replace.
        refs.check_repository(connection, uid, lock=True)
        connection.execute(delete(policies).where(policies.c.repo_uid == uid))
        if document is not None:
            connection.execute(insert(policies).values(repo_uid=uid, document=document))

    workspace.database.transact(work)


def stored_policy(workspace: Workspace) -> str | None:
    """The document that is stored, if one is."""
    query = select(policies.c.document).where(policies.c.repo_uid == workspace.repo_uid)
    with workspace.database.read() as connection:
        document: str | None = connection.execute(query).scalar()
    return document
