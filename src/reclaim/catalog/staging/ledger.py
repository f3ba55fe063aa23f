"""The ledger: one row for each address that was uploaded here and is not yet cleaned.

An address is condemned in the transaction in which its last staged row goes. Condemned is
terminal. No row means: committed and cleaned long ago, never touched online.
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
"""Rows in a statement of SQLite, which takes no more than some thousand values."""
_FEW = 20
"""Rows for which PostgreSQL gets a statement: to copy them takes one more round trip."""
_ENTERED = ("address", "path", "size", "repo_uid", "created_at")


def enter(connection: Connection, repo_uid: str, fresh: Iterable[Entry], now: int) -> None:
    """Enter objects that were just uploaded and are about to be staged."""
    rows = [(entry.address, entry.path, entry.size, repo_uid, now) for entry in fresh]
    # In the drivers' own words, and all together: this is on the way of every put.
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
    """Lock an address that is about to get another reference; a condemned one is refused."""
    query = (
        select(ledger.c.state, ledger.c.run_id, ledger.c.rule)
        .where(ledger.c.address == address)
        .with_for_update(read=True)
    )
    row = connection.execute(query).first()
    if row is not None and row.state != LedgerState.LIVE:
        raise gone(address, row.run_id, row.rule)


def release(connection: Connection, released: Collection[str], now: int, rule: str) -> None:
    """Condemn those of the addresses that no staged row refers to any more.

    The rows are locked first and what is left is counted in a later statement: on PostgreSQL
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


def gone(what: str, run_id: str | None, rule: str | None) -> Gone:
    """The error for something that was condemned, saying by whom and why."""
    by = f"run {run_id}" if run_id else "the online ledger"
    return Gone(
        f"{what} was removed by {by}" + (f" ({rule})" if rule else ""),
        hint="it cannot be referred to any more; restore it from another copy",
        run=run_id,
        rule=rule,
    )


def taken(connection: Connection, address: str) -> Gone | None:
    """Why an object's bytes are not there, if this catalog took them."""
    row = connection.execute(select(ledger).where(ledger.c.address == address)).first()
    if row is None or row.state == LedgerState.LIVE:
        return None
    return gone(address, row.run_id, row.rule)


def settle(connection: Connection, landed: Collection[str]) -> None:
    """Take out addresses that a commit holds now, except what a run has condemned since.

    Without its row, such an address would be free to be shared again.
    """
    if landed:
        settled = among(connection, ledger.c.address, landed)
        live = ledger.c.state == LedgerState.LIVE
        connection.execute(delete(ledger).where(settled, live))
