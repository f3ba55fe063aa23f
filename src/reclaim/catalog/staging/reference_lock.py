"""Lock shared by writers of references and taken exclusively by lifecycle runs.

The lock is the repository's row. A transaction creating a reference (a staged entry for existing
bytes, a commit, a branch, a tag, a lease) shares it from its first statement to its end, and then
checks claims. A run about to delete bytes referenced by commits takes the lock exclusively for a
moment. So the run either sees the reference, or the writer sees the claim.

SQLite has a single writing transaction at a time and needs no lock.
"""

from __future__ import annotations

from sqlalchemy import Connection, select

from reclaim.catalog.database.schema import repositories


def share(connection: Connection, repo_uid: str) -> None:
    """Share the lock in a transaction creating a reference. To be called before any other lock.

    It does not conflict with counting epochs in the same row.
    """
    query = select(repositories.c.uid).where(repositories.c.uid == repo_uid)
    connection.execute(query.with_for_update(read=True, key_share=True))


def exclude(connection: Connection, repo_uid: str) -> None:
    """Wait for every transaction creating a reference, and block others until this one ends.

    Later statements see everything those transactions have saved. Keep the rest of the transaction
    short.
    """
    query = select(repositories.c.uid).where(repositories.c.uid == repo_uid)
    connection.execute(query.with_for_update())
