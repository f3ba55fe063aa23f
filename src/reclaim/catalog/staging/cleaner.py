"""Cleaner: removes the rows of committed and dropped tokens, later and in batches.

Rows of a committed token are removed with their ledger rows: their addresses now belong to the
history and are never touched online again. Rows of a dropped token, and rows shadowed by a newer
token of the same commit, release their addresses instead. Tokens are cleaned oldest first, so
shadowing rows still exist when the shadowed row is cleaned.
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
    """Number of rows and tokens removed by a cleaning, and whether it is complete."""

    rows: int
    tokens: int
    finished: bool


def clean(database: Database, clock: Clock, repo_uid: str, *, limit: int | None = None) -> Cleaned:
    """Remove obsolete rows, at most ``limit`` of them (default: all)."""
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
    """Remove a batch of the oldest token; 0 if it was empty, None if no token is left."""
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
    of_token = staged_entries.c.token_id == token.id
    query = select(staged_entries.c.path, staged_entries.c.address, staged_entries.c.owned)
    rows = connection.execute(query.where(of_token).limit(BATCH)).all()
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
    connection.execute(delete(staged_entries).where(of_token, cleaned))
    owned = [(row.address, row.path) for row in rows if row.owned]
    landed = [pair for pair in owned if pair[1] not in shadowed]
    lost = [pair for pair in owned if pair[1] in shadowed]
    protected_paths.note_settled(connection, token.id, landed)
    protected_paths.note_removed(connection, token.id, lost)
    ledger.settle(connection, [address for address, _ in landed])
    ledger.release(connection, {address for address, _ in lost}, now, rule)
    return len(rows)


def _shadowed(connection: Connection, token: int, commit_id: str, paths: list[str]) -> set[str]:
    """Return the paths also changed by a newer token of the same commit."""
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
