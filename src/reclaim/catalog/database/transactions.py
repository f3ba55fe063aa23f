"""Database of the catalog: transactions with explicit isolation, and translated errors.

``read`` is a single snapshot: an explicit BEGIN on SQLite, REPEATABLE READ READ ONLY on PostgreSQL.
``write`` is BEGIN IMMEDIATE on SQLite; on PostgreSQL it is READ COMMITTED, and callers lock the
rows they depend on. The drivers' defaults are weaker than they appear, so the code never relies on
them.
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, func, select, text
from sqlalchemy import exc as foreign
from sqlalchemy.engine import make_url

from reclaim.clock import Clock, SystemClock
from reclaim.errors import (
    Corrupt,
    DatabaseLocked,
    DatabaseUnavailable,
    InvalidInput,
    NotFound,
    OutOfSpace,
    ReclaimError,
    Refused,
    TransactionFailed,
)
from reclaim.urls import redacted

T = TypeVar("T")
Batch = TypeVar("Batch")

LOCK_WAIT_SECONDS = 30
ATTEMPTS = 8
PAUSE_SECONDS = 0.03
"""Pause between two batches: about as long as a batch takes."""

SQLITE_READ = "BEGIN"
SQLITE_WRITE = "BEGIN IMMEDIATE"
POSTGRESQL_READ = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
POSTGRESQL_WRITE = {"isolation_level": "READ COMMITTED"}


class Database:
    """SQL database, accessed through SQLAlchemy Core."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self.name = name
        self.is_sqlite = engine.dialect.name == "sqlite"

    @classmethod
    def open(cls, url: str, *, create: bool = False) -> Database:
        """Open a database; a SQLite file is created only with ``create``."""
        with translated(redacted(url)):
            if url.startswith("sqlite:///"):
                return cls._open_sqlite(Path(url.removeprefix("sqlite:///")), create=create)
            return cls._open_postgresql(url)

    @classmethod
    def _open_sqlite(cls, file: Path, *, create: bool) -> Database:
        if not create and not file.is_file():
            raise NotFound(
                f"there is no catalog at {file}",
                hint="create it with `reclaim init`, or select another with --catalog",
            )
        if create:
            _make_private(file)
        engine = create_engine(
            f"sqlite:///file:{quote(str(file.absolute()))}?mode=rw&uri=true",
            connect_args={"timeout": LOCK_WAIT_SECONDS},
        )

        @event.listens_for(engine, "connect")
        def _prepare(connection: sqlite3.Connection, _record: object) -> None:
            connection.isolation_level = None
            connection.execute("PRAGMA journal_mode = WAL")
            # An acknowledged commit must survive a power failure: bytes may be deleted
            # because of it.
            connection.execute("PRAGMA synchronous = FULL")

        @event.listens_for(engine, "begin")
        def _begin(connection: Connection) -> None:
            writes = connection.get_execution_options().get("reclaim_writes", False)
            connection.exec_driver_sql(SQLITE_WRITE if writes else SQLITE_READ)

        # Absolute, because the working folder of a process may change.
        return cls(engine, str(file.absolute()))

    @classmethod
    def _open_postgresql(cls, url: str) -> Database:
        try:
            parsed = make_url(url)
        except ValueError as error:
            raise InvalidInput(f"{redacted(url)} is not a database URL") from error
        if parsed.get_backend_name() != "postgresql":
            raise InvalidInput(
                f"{parsed.get_backend_name()} is not supported for catalogs",
                hint="pass a folder, a sqlite:/// file or a postgresql:// URL",
            )
        if "@" in f"{parsed.host}{parsed.database}":
            # Part of the password would be taken for a host name, and shown in the errors of its
            # lookup.
            raise InvalidInput(
                f"the user name or password in the database URL {redacted(url)} contains an "
                "unescaped character",
                hint="use %40 for @, %2F for /, %3A for :, %3F for ? and %23 for #",
            )
        # Otherwise a database without an encoding returns bytes, without a clear error.
        engine = create_engine(
            parsed.set(drivername="postgresql+psycopg"),
            pool_pre_ping=True,
            connect_args={"client_encoding": "utf8"},
        )
        return cls(engine, redacted(url))

    def files(self) -> list[Path]:
        """Existing files of a SQLite database, all with the permissions of the first."""
        names = (
            [f"{self.name}{ending}" for ending in ("", "-wal", "-shm")] if self.is_sqlite else []
        )
        return [Path(name) for name in names if Path(name).is_file()]

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Read a consistent snapshot of the whole database; PostgreSQL refuses writes."""
        options: dict[str, Any] = {} if self.is_sqlite else POSTGRESQL_READ
        with translated(self.name), self._engine.connect() as connection:
            with connection.execution_options(**options).begin():
                yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Run a write transaction, committed if the block ends without an error."""
        options: dict[str, Any] = {"reclaim_writes": True}
        if not self.is_sqlite:
            options |= POSTGRESQL_WRITE
        with translated(self.name), self._engine.connect() as connection:
            with connection.execution_options(**options).begin():
                yield connection

    def check_encoding(self, connection: Connection) -> None:
        """Refuse a PostgreSQL database whose encoding cannot store every name."""
        if self.is_sqlite:
            return
        encoding = connection.execute(text("SELECT getdatabaseencoding()")).scalar_one()
        if encoding != "UTF8":
            raise Refused(
                f"the database {self.name} uses encoding {encoding}; a catalog requires UTF8",
                hint="create it with: CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0",
            )

    def now(self, connection: Connection, clock: Clock) -> datetime:
        """Time by which instances sharing the database judge each other's leases.

        This is the clock of the database server, if any, because the clocks of instances may
        differ. A manually set clock is always used.
        """
        if self.is_sqlite or not isinstance(clock, SystemClock):
            return clock.now()
        now: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
        return now.astimezone(UTC)

    def transact_each(
        self, batches: Iterable[Batch], work: Callable[[Connection, Batch], int]
    ) -> int:
        """Run ``work`` on each batch in its own transaction; return the sum of the results.

        Other writers can run in between. On SQLite waiting writers do not queue but retry after a
        while, so without a pause the next batch would usually come first.
        """
        done = 0
        for number, batch in enumerate(batches):
            if number and self.is_sqlite:
                time.sleep(PAUSE_SECONDS)

            def on_batch(connection: Connection, batch: Batch = batch) -> int:
                return work(connection, batch)

            done += self.transact(on_batch)
        return done

    def transact(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in a write transaction; repeat it when the database reports a lost race.

        ``work`` must have no effects outside the database: it may run several times.
        """
        for attempt in range(ATTEMPTS):
            finished = False
            try:
                with self.write() as connection:
                    result = work(connection)
                    finished = True
                return result
            except ConnectionLost as error:
                if finished:
                    raise DatabaseUnavailable(
                        f"the connection to {self.name} was lost while a change was being saved; "
                        "it is unknown whether the change was saved",
                        hint="check for the change before running the command again",
                    ) from error
                if attempt == ATTEMPTS - 1:
                    raise
            except LostRace:
                if attempt == ATTEMPTS - 1:
                    raise
            # Random, because equal waits would collide again.
            time.sleep(random.uniform(0, 0.005 * 2**attempt))
        raise AssertionError("unreachable")


class LostRace(TransactionFailed):
    """Two transactions conflicted on the same rows; the loser can run again."""


class ConnectionLost(DatabaseUnavailable):
    """The connection was lost during a transaction; uncommitted changes are rolled back."""


def _make_private(file: Path) -> None:
    """Create an empty database readable only by its owner, unless it exists."""
    try:
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode=0o600)
    except FileExistsError:
        return
    except OSError as error:
        raise DatabaseUnavailable(
            f"cannot create the database {file}: {error.strerror}", hint="check its folder"
        ) from error
    os.close(handle)


@contextmanager
def translated(database: str) -> Iterator[None]:
    """Translate errors of SQLAlchemy and the drivers into ``reclaim.errors``."""
    try:
        yield
    except ReclaimError:
        raise
    except foreign.SQLAlchemyError as error:
        raise _translate(database, error) from error
    except sqlite3.Error as error:
        raise _translate(database, error) from error
    except UnicodeEncodeError as error:
        raise InvalidInput(f"the text contains invalid Unicode: {error.object[:40]!r}") from error


def _translate(database: str, error: Exception) -> ReclaimError:
    cause = getattr(error, "orig", None) or error
    message = str(cause).strip().split("\n", 1)[0]
    state = getattr(cause, "sqlstate", None) or ""
    if "UNIQUE constraint failed" in message or state in ("23505", "40001", "40P01"):
        return LostRace(
            f"the database {database} had two writers on the same rows: {message}",
            hint="run it again",
        )
    if getattr(error, "connection_invalidated", False) or state in ("57P01", "57P02", "57P03"):
        return ConnectionLost(
            f"the connection to the database {database} was lost: {message}",
            hint="check that the database is reachable, then run it again; nothing was changed",
        )
    if "database is locked" in message or "database table is locked" in message or state == "55P03":
        return DatabaseLocked(
            f"the database {database} was locked by another writer for {LOCK_WAIT_SECONDS} s",
            hint="wait for the other process to finish, then run it again",
        )
    if "disk is full" in message or state == "53100":
        return OutOfSpace(
            f"the disk of the database {database} is full",
            hint="free some space and run it again; the change was rolled back",
        )
    if "not a database" in message or "malformed" in message:
        return Corrupt(
            f"{database} is not a readable catalog database: {message}",
            hint="restore it from a backup; nothing was changed",
        )
    if "cannot contain NUL" in message:
        return InvalidInput("the text contains NUL")
    if "no such table" in message or state == "42P01":
        return NotFound(
            f"the database {database} contains no catalog",
            hint="create a catalog with `reclaim init`",
        )
    if "readonly database" in message or state in ("25006", "42501"):
        return DatabaseUnavailable(
            f"the database {database} cannot be written: {message}",
            hint="check its permissions",
        )
    if isinstance(error, foreign.NoSuchModuleError | foreign.ArgumentError):
        return InvalidInput(f"the database URL {database} cannot be used: {message}")
    return DatabaseUnavailable(
        f"the database {database} cannot be used: {message}",
        hint="check that the database is reachable, then run it again; nothing was changed",
    )
