"""The identity of a database: what a copy of it does not have.

A SQLite file has its inode and the time at which that was born: a copy, a backup and a restored
file have others, while a rename on the same file system, VACUUM and the write-ahead log keep them.
A PostgreSQL database has the identifier of its cluster and its own number there. What a copy of
a whole disk or cluster has is the same, and cannot be told apart by this.
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
    """The identity of a database; None where it cannot be asked for."""
    if database.is_sqlite:
        return _of_file(Path(database.name))
    try:
        with database.read() as connection:
            row = connection.execute(_CLUSTER).one()
    except ReclaimError:
        # The account may not ask. Whatever else is wrong, the next statement says.
        return None
    return {KIND: "postgresql", "cluster": row.cluster, "number": row.number}


def same(left: Identity, right: Identity) -> bool:
    """Whether two identities are of one database; what only one of them says is not compared.

    Of those that have no fact in common but their kind nothing is known, and they are not the same.
    """
    common = left.keys() & right.keys()
    return tells(common) and all(left[fact] == right[fact] for fact in common)


def tells(facts: Collection[str]) -> bool:
    """Whether facts tell a database from others of its kind."""
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
    """The fields of Linux' ``statx``, as far as the time of a file's birth."""

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
    """The function of the C library, which Python does not have before 3.15."""
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), "statx", None)


def _birth(file: Path) -> int | None:
    """When a file was made, in nanoseconds; None where the system does not say."""
    statx = _statx()
    told = _Statx()
    if statx is None:
        return None
    if statx(_AT_FDCWD, os.fsencode(file), 0, _STATX_BTIME, ctypes.byref(told)) != 0:
        return None
    if not told.mask & _STATX_BTIME:
        return None
    return int(told.seconds) * 10**9 + int(told.nanoseconds)
