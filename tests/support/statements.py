"""Statements that are compiled once for all catalogs of a test process.

SQLAlchemy keeps what it compiled for each engine, and every opened catalog has an engine of its
own; what makes tables it never keeps. A user makes one catalog and opens it; a test opens ten, and
spent more on compiling than on its database.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import sqlalchemy
from sqlalchemy import Connection, Dialect, Engine, create_mock_engine
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util import LRUCache

from reclaim.catalog.database import transactions
from reclaim.catalog.database.schema import metadata

_compiled: LRUCache[Any, Any] = LRUCache(2_000)


def share_compiled_statements() -> None:
    """Let all engines share what was compiled for their kind of database."""
    for dialect in (SQLiteDialect_pysqlite, PGDialect_psycopg):
        # The dialect is a part of the key; all of a kind speak to the same version here.
        dialect.__eq__ = _same_kind  # type: ignore[method-assign]
        dialect.__hash__ = _hash_of_kind  # type: ignore[method-assign,assignment]
    transactions.create_engine = _create_engine  # type: ignore[attr-defined]
    metadata.create_all = _create_tables  # type: ignore[method-assign,assignment]


def _create_engine(*args: Any, **options: Any) -> Engine:
    engine = sqlalchemy.create_engine(*args, **options)
    engine._compiled_cache = _compiled
    return engine


def _create_tables(connection: Connection, *, checkfirst: bool) -> None:
    assert not checkfirst
    for statement in _tables(connection.dialect):
        connection.exec_driver_sql(statement)


@cache
def _tables(dialect: Dialect) -> list[str]:
    """What ``MetaData.create_all`` tells a database."""
    told: list[str] = []
    engine = create_mock_engine(
        f"{dialect.name}+{dialect.driver}://",
        lambda statement, *_: told.append(str(statement.compile(dialect=dialect))),
    )
    type(metadata).create_all(metadata, engine, checkfirst=False)
    return told


def _same_kind(dialect: object, other: object) -> bool:
    return type(dialect) is type(other)


def _hash_of_kind(dialect: object) -> int:
    return hash(type(dialect))
