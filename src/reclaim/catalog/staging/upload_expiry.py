"""Expiry of unused upload tokens, which condemns their addresses."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, insert, select, update

from reclaim.catalog.database.schema import LedgerState, UploadState, ledger, upload_tokens
from reclaim.catalog.database.sets import among
from reclaim.catalog.database.transactions import Database
from reclaim.clock import Clock, to_micros

BATCH = 1_000
RULE = "its upload was not linked in time"


def expire_uploads(database: Database, clock: Clock, repo_uid: str) -> int:
    """Expire the upload tokens past their time; return their number.

    Linking locks its token, so linking and expiry exclude each other.
    """
    expired = 0
    while batch := database.transact(
        lambda connection: _expire_batch(
            connection, repo_uid, to_micros(database.now(connection, clock))
        )
    ):
        expired += batch
    return expired


def has_expired_uploads(database: Database, clock: Clock, repo_uid: str) -> bool:
    """Whether a token is past its time."""
    with database.read() as connection:
        now = to_micros(database.now(connection, clock))
        query = select(upload_tokens.c.id).where(*_over(repo_uid, now)).limit(1)
        return connection.execute(query).first() is not None


def _over(repo_uid: str, now: int) -> tuple[ColumnElement[bool], ...]:
    return (
        upload_tokens.c.repo_uid == repo_uid,
        upload_tokens.c.state == UploadState.PENDING,
        upload_tokens.c.expires_at <= now,
    )


def _expire_batch(connection: Connection, repo_uid: str, now: int) -> int:
    query = (
        select(
            upload_tokens.c.id,
            upload_tokens.c.address,
            upload_tokens.c.path,
            upload_tokens.c.created_at,
        )
        .where(*_over(repo_uid, now))
        .limit(BATCH)
        .with_for_update()
    )
    rows = connection.execute(query).all()
    if not rows:
        return 0
    expired_rows = among(connection, upload_tokens.c.id, [row.id for row in rows])
    connection.execute(update(upload_tokens).where(expired_rows).values(state=UploadState.EXPIRED))
    condemned = [
        {
            "address": row.address,
            "repo_uid": repo_uid,
            "state": LedgerState.CONDEMNED,
            "created_at": row.created_at,
            "condemned_at": now,
            "rule": RULE,
            "path": row.path,
        }
        for row in rows
    ]
    connection.execute(insert(ledger), condemned)
    return len(rows)
