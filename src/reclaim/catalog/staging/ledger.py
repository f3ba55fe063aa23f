"""Ledger: a row for each uploaded address that is not yet cleaned.

An address is condemned in the transaction removing its last staged row. Condemned is final. An
address without a row was committed and cleaned long ago, and is never touched online.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain

from sqlalchemy import Connection, delete, select, update

from reclaim.catalog.content.entries import Entry
from reclaim.catalog.database.bulk import copy_rows
from reclaim.catalog.database.schema import (
    LedgerState,
    TokenState,
    ledger,
    staged_entries,
    staging_tokens,
)
from reclaim.catalog.database.sets import among
from reclaim.errors import Gone

HOLDING = (TokenState.OPEN, TokenState.SEALED, TokenState.COMMITTED)
"""Rows of tokens in these states keep an address alive; rows of dropped tokens do not."""


_TOGETHER = 500
"""Rows per SQLite statement, whose number of values is limited to some thousands."""
_FEW = 20
"""Number of rows up to which PostgreSQL uses a statement: COPY needs an extra round trip."""
_ENTERED = ("address", "path", "size", "repo_uid", "created_at")


def enter(connection: Connection, repo_uid: str, fresh: Iterable[Entry], now: int) -> None:
    """Enter newly uploaded objects before they are staged."""
    rows = [(entry.address, entry.path, entry.size, repo_uid, now) for entry in fresh]
    # Driver-level SQL and multi-row inserts, because every put runs through here.
    is_sqlite = connection.dialect.name == "sqlite"
    if not is_sqlite and len(rows) > _FEW:
        copy_rows(connection, "ledger", _ENTERED, rows)
        return
    for start in range(0, len(rows), _TOGETHER):
        several = rows[start : start + _TOGETHER]
        row = "(?, ?, ?, ?, ?)" if is_sqlite else "(%s, %s, %s, %s, %s)"
        marks = ", ".join([row] * len(several))
        connection.exec_driver_sql(
            f"INSERT INTO ledger ({', '.join(_ENTERED)}) VALUES {marks}",
            tuple(chain.from_iterable(several)),
        )


def hold(connection: Connection, address: str) -> None:
    """Lock an address before adding a reference; refuse a condemned address."""
    query = (
        select(ledger.c.state, ledger.c.run_id, ledger.c.rule)
        .where(ledger.c.address == address)
        .with_for_update(read=True)
    )
    row = connection.execute(query).first()
    if row is not None and row.state != LedgerState.LIVE:
        raise gone(address, row.run_id, row.rule)


def release(connection: Connection, released: Collection[str], now: int, rule: str) -> None:
    """Condemn the addresses without any remaining staged row.

    The rows are locked first and the remaining references read in a later statement: on PostgreSQL
    a single UPDATE would decide on a snapshot from before the lock.
    """
    if not released:
        return
    lock = (
        select(ledger.c.address)
        .where(among(connection, ledger.c.address, released))
        .where(ledger.c.state == LedgerState.LIVE)
        .order_by(ledger.c.address)
        .with_for_update()
    )
    locked = set(connection.execute(lock).scalars())
    if not locked:
        return
    left = (
        select(staged_entries.c.address)
        .join(staging_tokens, staging_tokens.c.id == staged_entries.c.token_id)
        .where(
            staged_entries.c.owned,
            among(connection, staged_entries.c.address, locked),
            staging_tokens.c.state.in_(HOLDING),
        )
    )
    condemned = locked.difference(connection.execute(left).scalars())
    if condemned:
        connection.execute(
            update(ledger)
            .where(among(connection, ledger.c.address, condemned))
            .values(state=LedgerState.CONDEMNED, condemned_at=now, rule=rule)
        )


def gone(subject: str, run_id: str | None, rule: str | None) -> Gone:
    """Error for a condemned object, with the run and the reason."""
    by = f"run {run_id}" if run_id else "the online ledger"
    return Gone(
        f"{subject} was removed by {by}" + (f" ({rule})" if rule else ""),
        hint="it cannot be referred to any more; restore it from another copy",
        run=run_id,
        rule=rule,
    )


def taken(connection: Connection, address: str) -> Gone | None:
    """Reason why an object's bytes are missing, if this catalog deleted them."""
    row = connection.execute(select(ledger).where(ledger.c.address == address)).first()
    if row is None or row.state == LedgerState.LIVE:
        return None
    return gone(address, row.run_id, row.rule)


def settle(connection: Connection, landed: Collection[str]) -> None:
    """Remove addresses now held by a commit, except those condemned by a run since.

    Without its row, a condemned address could be shared again.
    """
    if landed:
        settled = among(connection, ledger.c.address, landed)
        live = ledger.c.state == LedgerState.LIVE
        connection.execute(delete(ledger).where(settled, live))
