"""The cleaner: removes the rows of committed and dropped tokens, later and in batches.

Rows of a committed token take their ledger rows with them: those addresses now belong to the
history, and nothing touches them online any more. Rows of a dropped token, and rows that a newer
token of the same commit shadowed, release their addresses instead. Tokens go oldest first, so
what shadows a row is still there when the row is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, select, update

from reclaim.catalog.database.schema import TokenState, staged_entries, staging_tokens
from reclaim.catalog.database.sets import among
from reclaim.catalog.database.transactions import Database
from reclaim.catalog.staging import ledger, protected_paths
from reclaim.clock import Clock, to_micros

BATCH = 1_000


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Rows and tokens that a cleaning removed, and whether anything is left to clean."""

    rows: int
    tokens: int
    finished: bool


def clean(database: Database, clock: Clock, repo_uid: str, *, limit: int | None = None) -> Cleaned:
    """Remove rows that are no longer read, at most ``limit`` of them (all by default)."""
    rows = tokens = 0
    while limit is None or rows < limit:
        batch = database.transact(
            lambda connection: _clean_batch(connection, repo_uid, to_micros(clock.now()))
        )
        if batch is None:
            return Cleaned(rows, tokens, finished=True)
        rows += batch
        tokens += batch == 0
    return Cleaned(rows, tokens, finished=False)


def _clean_batch(connection: Connection, repo_uid: str, now: int) -> int | None:
    """Remove one batch of the oldest token; 0 when that token was empty, None when none is left."""
    oldest = (
        select(staging_tokens)
        .where(
            staging_tokens.c.repo_uid == repo_uid,
            staging_tokens.c.state.in_((TokenState.COMMITTED, TokenState.DROPPED)),
            ~staging_tokens.c.cleaned,
        )
        .order_by(staging_tokens.c.id)
        .limit(1)
        .with_for_update()
    )
    token = connection.execute(oldest).first()
    if token is None:
        return None
    mine = staged_entries.c.token_id == token.id
    query = select(staged_entries.c.path, staged_entries.c.address, staged_entries.c.owned)
    rows = connection.execute(query.where(mine).limit(BATCH)).all()
    if not rows:
        done = update(staging_tokens).where(staging_tokens.c.id == token.id)
        connection.execute(done.values(cleaned=True))
        return 0
    paths = [row.path for row in rows]
    shadowed = set(paths)
    rule = "reset before it was committed"
    if token.state == TokenState.COMMITTED:
        shadowed = _shadowed(connection, token.id, token.commit_id, paths)
        rule = "overwritten before it was committed"
    cleaned = among(connection, staged_entries.c.path, paths)
    connection.execute(delete(staged_entries).where(mine, cleaned))
    owned = [(row.address, row.path) for row in rows if row.owned]
    landed = [pair for pair in owned if pair[1] not in shadowed]
    lost = [pair for pair in owned if pair[1] in shadowed]
    protected_paths.note_settled(connection, token.id, landed)
    protected_paths.note_removed(connection, token.id, lost)
    ledger.settle(connection, [address for address, _ in landed])
    ledger.release(connection, {address for address, _ in lost}, now, rule)
    return len(rows)


def _shadowed(connection: Connection, token: int, commit_id: str, paths: list[str]) -> set[str]:
    """The paths that a newer token of the same commit has too."""
    query = (
        select(staged_entries.c.path)
        .join(staging_tokens, staging_tokens.c.id == staged_entries.c.token_id)
        .where(
            staging_tokens.c.commit_id == commit_id,
            staging_tokens.c.id > token,
            among(connection, staged_entries.c.path, paths),
        )
    )
    return set(connection.execute(query).scalars())
