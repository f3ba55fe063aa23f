"""Identity of a database, which distinguishes it from copies.

A SQLite file is identified by its inode and birth time: copies, backups and restored files have
others, while a rename on the same file system, VACUUM and the write-ahead log preserve both. A
PostgreSQL database is identified by the identifier of its cluster and its number there. A copy of a
whole disk or cluster has the same identity and cannot be distinguished.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import text

from reclaim.catalog.database.transactions import Database
from reclaim.errors import ReclaimError

Identity = Mapping[str, str]
KIND = "kind"

_CLUSTER = text(
    "SELECT system_identifier::text AS cluster, oid::text AS number "
    "FROM pg_control_system(), pg_database WHERE datname = current_database()"
)


def identify(database: Database) -> Identity | None:
    """Identity of a database; None if it is not available."""
    if database.is_sqlite:
        return _of_file(Path(database.name))
    try:
        with database.read() as connection:
            row = connection.execute(_CLUSTER).one()
    except ReclaimError:
        # The account lacks the permission. The next statement reports any other problem.
        return None
    return {KIND: "postgresql", "cluster": row.cluster, "number": row.number}


def same(left: Identity, right: Identity) -> bool:
    """Whether two identities belong to the same database. Only shared facts are compared.

    Identities without shared facts except their kind are not the same.
    """
    common = left.keys() & right.keys()
    return tells(common) and all(left[fact] == right[fact] for fact in common)


def tells(facts: Collection[str]) -> bool:
    """Whether facts distinguish a database from others of its kind."""
    return any(fact != KIND for fact in facts)


def _of_file(file: Path) -> Identity | None:
    try:
        status = file.stat()
    except OSError:
        return None
    facts = {KIND: "sqlite", "inode": str(status.st_ino)}
    born = getattr(status, "st_birthtime", None) or _birth(file)
    return facts | ({"born": str(born)} if born else {})


class _Statx(ctypes.Structure):
    """Fields of Linux' ``statx`` up to the birth time of a file."""

    _fields_ = (
        ("mask", ctypes.c_uint32),
        ("before", ctypes.c_uint8 * 76),
        ("seconds", ctypes.c_int64),
        ("nanoseconds", ctypes.c_uint32),
        ("after", ctypes.c_uint8 * 164),
    )


_AT_FDCWD = -100
_STATX_BTIME = 0x800


@cache
def _statx() -> Any:
    """Function of the C library, which Python lacks before 3.15."""
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), "statx", None)


def _birth(file: Path) -> int | None:
    """Birth time of a file in nanoseconds; None if the system does not report it."""
    statx = _statx()
    status = _Statx()
    if statx is None:
        return None
    if statx(_AT_FDCWD, os.fsencode(file), 0, _STATX_BTIME, ctypes.byref(status)) != 0:
        return None
    if not status.mask & _STATX_BTIME:
        return None
    return int(status.seconds) * 10**9 + int(status.nanoseconds)
