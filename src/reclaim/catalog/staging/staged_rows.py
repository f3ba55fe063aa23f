"""Staged rows: uncommitted changes.

Rows belong to staging tokens and are read depending on the token's state. A row without an address
is a tombstone. Put, delete and move never touch rows of sealed tokens. Removing a row always
releases its address in the ledger.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, select

from reclaim.catalog.addresses import is_external
from reclaim.catalog.content.entries import COLUMNS, Entry
from reclaim.catalog.database.schema import staged_entries
from reclaim.catalog.database.sets import among
from reclaim.catalog.names import after_prefix
from reclaim.catalog.staging import ledger, protected_paths

FETCH = 5_000
_COLUMNS = [staged_entries.c[name] for name in COLUMNS]


@dataclass(frozen=True, slots=True)
class StagedChange:
    """Staged state of a path; a tombstone has no entry."""

    entry: Entry | None


Values = tuple[Any, ...]
"""Values of ``COLUMNS``; a tombstone has no address."""


def tombstone(path: str, now: int) -> Values:
    return (path, None, 0, now, "", "", "")


def write(
    connection: Connection, token: int, changes: Sequence[Values], *, now: int, rule: str
) -> None:
    """Stage changes in an open, locked token, replacing existing rows at their paths."""
    above = lock_rows(connection, token, [values[0] for values in changes])
    replace(connection, token, above, changes, now=now, rule=rule)


def remove(
    connection: Connection, token: int, paths: Sequence[str], *, now: int, rule: str
) -> None:
    """Remove rows from a token."""
    replace(connection, token, lock_rows(connection, token, paths), now=now, rule=rule)


def lock_rows(connection: Connection, token: int, paths: Sequence[str]) -> dict[str, StagedChange]:
    """Lock the token's rows at these paths, so writers of a path take turns."""
    query = (
        select(*_COLUMNS)
        .where(staged_entries.c.token_id == token)
        .where(among(connection, staged_entries.c.path, paths))
        .with_for_update()
    )
    return {row.path: _change(row) for row in connection.execute(query)}


def replace(
    connection: Connection,
    token: int,
    above: Mapping[str, StagedChange],
    changes: Sequence[Values] = (),
    *,
    now: int,
    rule: str,
) -> None:
    """Replace the locked rows ``above`` by changes.

    At a path without a locked row, a concurrently added row makes the insert fail and the
    transaction repeat, so no change is replaced unseen.
    """
    rows = [
        (address is not None and not is_external(address), address, *values, token, path)
        for path, address, *values in changes
    ]
    fresh = [row for row in rows if row[-1] not in above] if above else rows
    if fresh:
        connection.exec_driver_sql(_insert(connection), fresh)
    if not above:
        return
    # Updated in place, so a PostgreSQL writer waiting for a row finds it again.
    if len(fresh) < len(rows):
        replaced = [row for row in rows if row[-1] in above]
        connection.exec_driver_sql(_update(connection), replaced)
    if gone := above.keys() - {row[-1] for row in rows}:
        paths = among(connection, staged_entries.c.path, gone)
        connection.execute(delete(staged_entries).where(staged_entries.c.token_id == token, paths))
    kept = {values[1] for values in changes}
    rows_lost = [old.entry for old in above.values() if old.entry and old.entry.owned]
    lost = {entry.address for entry in rows_lost}
    protected_paths.note_removed(connection, token, [(row.address, row.path) for row in rows_lost])
    ledger.release(connection, lost - kept, now, rule)


# Driver-level SQL: for millions of rows, SQLAlchemy's preparation would dominate.
_SET = ("owned", *(name for name in COLUMNS if name != "path"))
_KEY = ("token_id", "path")


def _insert(connection: Connection) -> str:
    marks = ", ".join(_mark(connection) for _ in (*_SET, *_KEY))
    return f"INSERT INTO staged_entries ({', '.join((*_SET, *_KEY))}) VALUES ({marks})"


def _update(connection: Connection) -> str:
    mark = _mark(connection)
    values = ", ".join(f"{name} = {mark}" for name in _SET)
    key = " AND ".join(f"{name} = {mark}" for name in _KEY)
    return f"UPDATE staged_entries SET {values} WHERE {key}"


def _mark(connection: Connection) -> str:
    return "?" if connection.dialect.name == "sqlite" else "%s"


def has_rows(connection: Connection, tokens: Sequence[int]) -> bool:
    """Whether any of the tokens has a change."""
    query = select(staged_entries.c.path).where(staged_entries.c.token_id.in_(tokens)).limit(1)
    return connection.execute(query).first() is not None


def find(connection: Connection, tokens: Sequence[int], path: str) -> StagedChange | None:
    """Return the newest row for a path, or None without a staged change."""
    query = (
        select(*_COLUMNS)
        .where(staged_entries.c.token_id.in_(tokens), staged_entries.c.path == path)
        .order_by(staged_entries.c.token_id.desc())
        .limit(1)
    )
    row = connection.execute(query).first()
    return None if row is None else _change(row)


def _change(row: Any) -> StagedChange:
    return StagedChange(Entry.from_values(*row) if row.address is not None else None)


def rows(
    connection: Connection,
    tokens: Sequence[int],
    *,
    start: str = "",
    prefix: str = "",
    fetch: int = FETCH,
) -> Iterator[Sequence[Any]]:
    """Yield the visible changes from ``start`` on, in path order, as values of ``COLUMNS``.

    ``tokens`` are newest first. Each token is read through its own cursor, ``fetch`` rows at a
    time.
    """
    cursors = [_token_rows(connection, token, start, prefix, fetch) for token in tokens]
    if len(cursors) == 1:
        yield from cursors[0]
        return
    last: str | None = None
    keyed = [_ranked(cursor, rank) for rank, cursor in enumerate(cursors)]
    for path, _rank, row in heapq.merge(*keyed, key=lambda item: (item[0], item[1])):
        if path != last:
            last = path
            yield row


def _ranked(cursor: Iterator[Sequence[Any]], rank: int) -> Iterator[tuple[str, int, Sequence[Any]]]:
    for row in cursor:
        yield row[0], rank, row


def _token_rows(
    connection: Connection, token: int, start: str, prefix: str, fetch: int
) -> Iterator[Sequence[Any]]:
    query = (
        select(*_COLUMNS).where(staged_entries.c.token_id == token).order_by(staged_entries.c.path)
    )
    low = max(start, prefix)
    if low:
        query = query.where(staged_entries.c.path >= low)
    high = after_prefix(prefix)
    if high is not None:
        query = query.where(staged_entries.c.path < high)
    options = {"stream_results": True, "yield_per": fetch}
    with connection.execute(query, execution_options=options) as streamed:
        for batch in streamed.partitions():
            yield from batch
