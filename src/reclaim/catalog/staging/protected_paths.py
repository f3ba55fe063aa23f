"""Recording of paths matching the setting ``protect`` when their last row is removed.

A run never touches an object that ever had a protected path. The paths of uncommitted objects are
known only from rows: the ledger has the first path, staged rows all others. When such a row is
replaced or removed, a protected path not in the ledger is recorded here, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pyarrow as pa
from sqlalchemy import Connection, select
from sqlalchemy.dialects import postgresql, sqlite

from reclaim.catalog.database.schema import (
    ledger,
    protected_paths,
    repository_settings,
    staging_tokens,
)
from reclaim.catalog.database.sets import among
from reclaim.globs import first_match

BETWEEN = ","
"""Separator of the globs in the setting."""
PROTECT = "protect"
"""Name of the setting."""

AddressPath = tuple[str, str]


def note_removed(connection: Connection, token: int, entries: Collection[AddressPath]) -> None:
    """Record the protected entries among those whose rows are removed, unless in the ledger."""
    if not entries:
        return
    repo_uid, globs = _globs_of(connection, token)
    if protected := _matching(entries, globs):
        known = _first_paths(connection, {address for address, _ in protected})
        _note(connection, repo_uid, [pair for pair in protected if known.get(pair[0]) != pair[1]])


def note_settled(connection: Connection, token: int, entries: Collection[AddressPath]) -> None:
    """Record protected first paths of committed entries, whose ledger rows are removed.

    The paths committed are known from their commit.
    """
    if not entries:
        return
    repo_uid, globs = _globs_of(connection, token)
    if globs:
        known = _first_paths(connection, {address for address, _ in entries})
        landed = set(entries)
        first = [(address, path) for address, path in known.items() if path is not None]
        _note(connection, repo_uid, _matching([p for p in first if p not in landed], globs))


def _globs_of(connection: Connection, token: int) -> tuple[str, tuple[str, ...]]:
    """Repository of a token, and its protected globs."""
    query = (
        select(repository_settings.c.repo_uid, repository_settings.c.value)
        .join(staging_tokens, staging_tokens.c.repo_uid == repository_settings.c.repo_uid)
        .where(staging_tokens.c.id == token, repository_settings.c.name == PROTECT)
    )
    row = connection.execute(query).first()
    return ("", ()) if row is None else (row.repo_uid, tuple(row.value.split(BETWEEN)))


def _matching(entries: Collection[AddressPath], globs: Collection[str]) -> list[AddressPath]:
    if not entries or not globs:
        return []
    paths = pa.array([path for _, path in entries], pa.string())
    matches = first_match(paths, tuple(globs)).is_valid().to_pylist()
    return [pair for pair, is_match in zip(entries, matches, strict=True) if is_match]


def _first_paths(connection: Connection, addresses: Collection[str]) -> dict[str, str | None]:
    query = select(ledger.c.address, ledger.c.path)
    rows = connection.execute(query.where(among(connection, ledger.c.address, addresses)))
    return {row.address: row.path for row in rows}


def _note(connection: Connection, repo_uid: str, entries: Iterable[AddressPath]) -> None:
    # Sorted, to avoid deadlocks between transactions.
    rows = [
        {"address": address, "path": path, "repo_uid": repo_uid}
        for address, path in sorted(set(entries))
    ]
    if not rows:
        return
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    connection.execute(dialect.insert(protected_paths).on_conflict_do_nothing(), rows)
