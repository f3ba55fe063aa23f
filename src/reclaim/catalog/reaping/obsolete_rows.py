"""Removal of obsolete rows, so completed operations leave no rows behind forever."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, or_, select

from reclaim.catalog.database.schema import (
    CommitState,
    LedgerState,
    TokenState,
    UploadState,
    commits,
    leases,
    ledger,
    protected_paths,
    repository_settings,
    staging_tokens,
    upload_tokens,
)
from reclaim.catalog.database.transactions import Database
from reclaim.catalog.staging.protected_paths import PROTECT
from reclaim.clock import MICROSECOND, Clock, to_micros
from reclaim.safety import SAFETY


def remove(database: Database, clock: Clock, repo_uid: str) -> int:
    """Remove obsolete rows of a repository; return their number.

    The caller must have compared the clock with the storage's clock.
    """
    if not has_any(database, clock, repo_uid):
        return 0

    def work(connection: Connection) -> int:
        obsolete = _obsolete(repo_uid, to_micros(database.now(connection, clock)))
        return sum(
            connection.execute(delete(table).where(condition)).rowcount
            for table, condition in obsolete.items()
        )

    return database.transact(work)


def has_any(database: Database, clock: Clock, repo_uid: str) -> bool:
    """Whether any row is obsolete; a round without work writes nothing."""
    with database.read() as connection:
        obsolete = _obsolete(repo_uid, to_micros(database.now(connection, clock)))
        return any(
            connection.execute(select(table.c.repo_uid).where(condition).limit(1)).first()
            for table, condition in obsolete.items()
        )


def _obsolete(repo_uid: str, now: int) -> Mapping[Table, ColumnElement[bool]]:
    """Obsolete rows, by table.

    - Upload tokens, used or expired: for a month they record which of the two.
      An expired token holds the path of an upload that was never linked, and
      stays while paths are protected.
    - Ledger rows of bytes deleted online: for a day they explain the deletion.
    - Tokens of discarded changes, once their entries are gone.
    """
    deleted = and_(
        ledger.c.repo_uid == repo_uid,
        ledger.c.state == LedgerState.DELETED,
        ledger.c.condemned_at < now - SAFETY.objects // MICROSECOND,
    )
    protects = (
        select(repository_settings.c.name)
        .where(repository_settings.c.repo_uid == repo_uid, repository_settings.c.name == PROTECT)
        .exists()
    )
    return {
        protected_paths: and_(
            protected_paths.c.repo_uid == repo_uid,
            protected_paths.c.address.in_(select(ledger.c.address).where(deleted)),
        ),
        upload_tokens: and_(
            upload_tokens.c.repo_uid == repo_uid,
            or_(
                upload_tokens.c.state == UploadState.USED,
                and_(upload_tokens.c.state == UploadState.EXPIRED, ~protects),
            ),
            upload_tokens.c.expires_at < now - SAFETY.records // MICROSECOND,
        ),
        ledger: deleted,
        staging_tokens: and_(
            staging_tokens.c.repo_uid == repo_uid,
            staging_tokens.c.state == TokenState.DROPPED,
            staging_tokens.c.cleaned,
        ),
    }


def remove_after_run(database: Database, clock: Clock, repo_uid: str) -> int:
    """Remove rows only a run may judge, after checking leases and commits by the same clock.

    - Leases that lapsed a month ago.
    - Tokens of collected commits: no commit can land on their branch any more.
    """

    def work(connection: Connection) -> int:
        now = to_micros(database.now(connection, clock))
        lapsed = and_(
            leases.c.repo_uid == repo_uid,
            leases.c.refreshed_at + leases.c.length < now - SAFETY.records // MICROSECOND,
        )
        collected = select(commits.c.id).where(
            commits.c.repo_uid == repo_uid, commits.c.state == CommitState.COLLECTED
        )
        taken = and_(
            staging_tokens.c.repo_uid == repo_uid,
            staging_tokens.c.state == TokenState.COMMITTED,
            staging_tokens.c.cleaned,
            staging_tokens.c.commit_id.in_(collected),
        )
        return sum(
            connection.execute(delete(table).where(condition)).rowcount
            for table, condition in ((leases, lapsed), (staging_tokens, taken))
        )

    return remove(database, clock, repo_uid) + database.transact(work)
