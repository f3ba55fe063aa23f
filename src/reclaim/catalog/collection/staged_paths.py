"""The paths under which objects were staged that are in no commit, as far as rows still tell.

The ledger knows it of condemned addresses. Rows of a token that was dropped, or of which a newer
token of the same commit has the path too, are there until they are cleaned; upload tokens tell what
was never linked. They explain objects in a plan, and let globs of the setting ``protect`` match; a
bounded number of them is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from sqlalchemy import Connection, Select, select

from reclaim.catalog.database.schema import (
    LedgerState,
    TokenState,
    UploadState,
    ledger,
    staged_entries,
    staging_tokens,
    upload_tokens,
)

STAGED_PATHS = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
    ]
)

MOST = 200_000
"""How many are told; every task that judges objects loads them."""
BATCH = 50_000


def staged_paths(connection: Connection, repo_uid: str) -> Iterator[pa.Table]:
    """Addresses and paths in tables of the shape ``STAGED_PATHS``, the most telling first."""

    def of_tokens(state: TokenState) -> Select[Any]:
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

    condemned = (
        select(ledger.c.address, ledger.c.path)
        .where(
            ledger.c.repo_uid == repo_uid,
            ledger.c.state == LedgerState.CONDEMNED,
            ledger.c.path.is_not(None),
        )
        # Of the oldest the bytes are gone by now.
        .order_by(ledger.c.condemned_at.desc())
    )
    uploads = select(upload_tokens.c.address, upload_tokens.c.path).where(
        upload_tokens.c.repo_uid == repo_uid, upload_tokens.c.state != UploadState.USED
    )
    # Of what was committed most is in a commit, and needs no explanation.
    queries = (
        condemned,
        of_tokens(TokenState.DROPPED),
        uploads,
        of_tokens(TokenState.COMMITTED),
    )
    left = MOST
    for query in queries:
        options = {"stream_results": True, "yield_per": BATCH}
        with connection.execute(query.limit(left), execution_options=options) as streamed:
            for rows in streamed.partitions():
                left -= len(rows)
                columns = [[row.address for row in rows], [row.path for row in rows]]
                yield pa.table(columns, schema=STAGED_PATHS)
        if not left:
            return
