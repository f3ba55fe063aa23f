"""Former staging paths of uncommitted objects, from the remaining rows.

The ledger has the paths of condemned addresses. Rows of dropped tokens, and rows shadowed by a
newer token of the same commit, exist until they are cleaned; upload tokens have the paths of
unlinked uploads. They explain objects in a plan, which needs only a bounded number of them.

Paths matching the setting ``protect`` are returned separately and completely: they keep objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from sqlalchemy import Connection, Select, select

from reclaim.catalog.database.schema import (
    LedgerState,
    TokenState,
    UploadState,
    ledger,
    protected_paths,
    staged_entries,
    staging_tokens,
    upload_tokens,
)
from reclaim.globs import first_match

STAGED_PATHS = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
    ]
)

MOST = 200_000
"""Maximum number of explained objects; every task judging objects loads them."""
BATCH = 50_000


def staged_paths(connection: Connection, repo_uid: str) -> Iterator[pa.Table]:
    """Yield addresses and paths in tables with the schema ``STAGED_PATHS``, most useful first."""
    condemned = (
        select(ledger.c.address, ledger.c.path)
        .where(
            ledger.c.repo_uid == repo_uid,
            ledger.c.state == LedgerState.CONDEMNED,
            ledger.c.path.is_not(None),
        )
        # The oldest bytes are already deleted.
        .order_by(ledger.c.condemned_at.desc())
    )
    # Most committed rows are in a commit and need no explanation.
    queries = (
        condemned,
        _of_tokens(repo_uid, TokenState.DROPPED),
        _of_uploads(repo_uid),
        _of_tokens(repo_uid, TokenState.COMMITTED),
    )
    remaining = MOST
    for query in queries:
        for table in _tables(connection, query.limit(remaining)):
            remaining -= table.num_rows
            yield table
        if not remaining:
            return


def find_protected(
    connection: Connection, repo_uid: str, globs: Sequence[str]
) -> Iterator[pa.Table]:
    """Yield every known path matching the globs, as ``STAGED_PATHS``."""
    if not globs:
        return
    # Includes first paths of objects now staged or committed under another path.
    first = select(ledger.c.address, ledger.c.path).where(
        ledger.c.repo_uid == repo_uid, ledger.c.path.is_not(None)
    )
    noted = select(protected_paths.c.address, protected_paths.c.path).where(
        protected_paths.c.repo_uid == repo_uid
    )
    states = (TokenState.DROPPED, TokenState.COMMITTED)
    staged = (_of_tokens(repo_uid, state) for state in states)
    for query in (first, noted, _of_uploads(repo_uid), *staged):
        for table in _tables(connection, query):
            matching = table.filter(first_match(table.column("path"), globs).is_valid())
            if matching.num_rows:
                yield matching


def _of_tokens(repo_uid: str, state: TokenState) -> Select[Any]:
    return (
        select(staged_entries.c.address, staged_entries.c.path)
        .join(staging_tokens, staging_tokens.c.id == staged_entries.c.token_id)
        .where(
            staging_tokens.c.repo_uid == repo_uid,
            staging_tokens.c.state == state,
            ~staging_tokens.c.cleaned,
            staged_entries.c.owned,
            staged_entries.c.address.is_not(None),
        )
    )


def _of_uploads(repo_uid: str) -> Select[Any]:
    return select(upload_tokens.c.address, upload_tokens.c.path).where(
        upload_tokens.c.repo_uid == repo_uid, upload_tokens.c.state != UploadState.USED
    )


def _tables(connection: Connection, query: Select[Any]) -> Iterator[pa.Table]:
    options = {"stream_results": True, "yield_per": BATCH}
    with connection.execute(query, execution_options=options) as streamed:
        for rows in streamed.partitions():
            columns = [[row.address for row in rows], [row.path for row in rows]]
            yield pa.table(columns, schema=STAGED_PATHS)
