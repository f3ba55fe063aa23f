"""Statements that are compiled once for all catalogs of a test process.

SQLAlchemy keeps what it compiled for each engine, and every opened catalog has an engine of its
own. A user opens one catalog; a test opens ten, and spent more on compiling than on its database.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy
from sqlalchemy import Engine
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util import LRUCache

from reclaim.catalog.database import transactions

_compiled: LRUCache[Any, Any] = LRUCache(2_000)


def share_compiled_statements() -> None:
    """Let all engines share what was compiled for their kind of database."""
    for dialect in (SQLiteDialect_pysqlite, PGDialect_psycopg):
        # The dialect is a part of the key; all of a kind speak to the same version here.
        dialect.__eq__ = _same_kind  # type: ignore[method-assign]
        dialect.__hash__ = _hash_of_kind  # type: ignore[method-assign,assignment]
    transactions.create_engine = _create_engine  # type: ignore[attr-defined]


def _create_engine(*args: Any, **options: Any) -> Engine:
    engine = sqlalchemy.create_engine(*args, **options)
    engine._compiled_cache = _compiled
    return engine


def _same_kind(dialect: object, other: object) -> bool:
    return type(dialect) is type(other)


def _hash_of_kind(dialect: object) -> int:
    return hash(type(dialect))
