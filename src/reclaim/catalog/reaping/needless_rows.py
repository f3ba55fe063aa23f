"""Rows that nobody needs any more: what ended long ago leaves no row behind for good."""

from __future__ import annotations

from sqlalchemy import Connection, delete, func, select

from reclaim.catalog.database.schema import (
    TokenState,
    UploadState,
    leases,
    staging_tokens,
    upload_tokens,
)
from reclaim.catalog.database.transactions import Database
from reclaim.clock import MICROSECOND, Clock, to_micros
from reclaim.safety import SAFETY


def remove(database: Database, clock: Clock, repo_uid: str) -> int:
    """Remove rows of a repository that nobody needs; returns how many.

    - Upload tokens that were used, or expired: for a day they still say which of the two.
    - Leases that lapsed a month ago. No clock is wrong by so much, and a run would have stopped.
    - Tokens of changes that were thrown away, once their entries are gone.
    """

    def work(connection: Connection) -> int:
        now = to_micros(database.now(connection, clock))
        ended = delete(upload_tokens).where(
            upload_tokens.c.repo_uid == repo_uid,
            upload_tokens.c.state.in_((UploadState.USED, UploadState.EXPIRED)),
            upload_tokens.c.expires_at < now - SAFETY.objects // MICROSECOND,
        )
        lapsed = delete(leases).where(
            leases.c.repo_uid == repo_uid,
            leases.c.refreshed_at + leases.c.length < now - SAFETY.records // MICROSECOND,
        )
        dropped = delete(staging_tokens).where(
            staging_tokens.c.repo_uid == repo_uid,
            staging_tokens.c.state == TokenState.DROPPED,
            staging_tokens.c.cleaned,
        )
        return sum(connection.execute(one).rowcount for one in (ended, lapsed, dropped))

    if not _any(database, repo_uid):
        return 0
    return database.transact(work)


def _any(database: Database, repo_uid: str) -> bool:
    """Whether there is anything that could be removed: a round that does nothing writes nothing."""
    ended = (UploadState.USED, UploadState.EXPIRED)
    counts = (
        select(func.count()).where(
            upload_tokens.c.repo_uid == repo_uid, upload_tokens.c.state.in_(ended)
        ),
        select(func.count()).where(leases.c.repo_uid == repo_uid),
        select(func.count()).where(
            staging_tokens.c.repo_uid == repo_uid,
            staging_tokens.c.state == TokenState.DROPPED,
            staging_tokens.c.cleaned,
        ),
    )
    with database.read() as connection:
        return any(connection.execute(query).scalar_one() for query in counts)
