"""The lock by which those who make references and those who take referenced bytes find each other.

It is the repository's row. Whoever makes a reference (a staged entry for bytes that there are, a
commit, a branch, a tag, a lease) shares it, from its first statement to its end, and then looks at
claims. Whoever is about to take bytes that commits refer to excludes all of them for a moment. So
each reference is either there for the other to see, or its maker sees what the other has written.

On SQLite one transaction writes at a time, and nothing has to be locked.
"""

from __future__ import annotations

from sqlalchemy import Connection, select

from reclaim.catalog.database.schema import repositories


def share(connection: Connection, repo_uid: str) -> None:
    """Say that this transaction makes a reference. To be called before it locks anything else.

    It does not wait for those who count epochs in the same row, nor they for it.
    """
    query = select(repositories.c.uid).where(repositories.c.uid == repo_uid)
    connection.execute(query.with_for_update(read=True, key_share=True))


def exclude(connection: Connection, repo_uid: str) -> None:
    """Wait for every transaction that makes a reference, and hold up others until this one ends.

    Statements from here on see all that those have saved. Keep what follows short.
    """
    query = select(repositories.c.uid).where(repositories.c.uid == repo_uid)
    connection.execute(query.with_for_update())
