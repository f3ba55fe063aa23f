"""A database, a storage and a clock that let a scheduler switch before each of their steps.

An open transaction that reads does not hold up others, so calls to the storage are steps inside it.
One that writes does: on SQLite nobody else could write, so nothing in it is a step of its own.

All that they return they also tell the switch: what a task does next follows from what it has seen.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from functools import partial
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Protocol, TypeVar

import pyarrow as pa
from sqlalchemy import Connection, Engine, event

from reclaim.catalog.database.schema import metadata
from reclaim.catalog.database.transactions import Database
from reclaim.model import StoredObject
from reclaim.storage import LastCheck, Payload, Storage, no_check
from reclaim.testing.clock import FakeClock
from reclaim.testing.storage import StorageWrapper, as_batches
from reclaim.urls import path_of
from tests.support.footprints import CLOCK, Footprint, of_folder, of_object

T = TypeVar("T")


class Switch(Protocol):
    """Is told before each step of a task, and of all that a step has seen.

    What a transaction touches is noted in its footprint while it runs.
    """

    holds: int
    """Transactions that are open."""

    def reach(self, name: str, footprint: Footprint) -> None: ...

    def see(self, seen: object, *, reads: Collection[str] = ()) -> None: ...

    def forgetting(self) -> AbstractContextManager[list[object]]:
        """Forget what is seen meanwhile, but for what is put into the list."""

    def keep_snapshot(self) -> None:
        """The task has a snapshot of all that there was at its step, and may read it later."""

    def release_snapshot(self) -> None:
        """It does not read it any more."""


class SwitchingDatabase(Database):
    """A database of which every transaction is a step."""

    def __init__(self, engine: Engine, name: str, switch: Switch) -> None:
        super().__init__(engine, name)
        self.switch = switch
        self._open: list[Footprint] = []
        self._kept = False
        self.writing = False
        event.listen(engine, "before_cursor_execute", self._note)
        event.listen(engine, "do_connect", self._connect)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with self._step("read"), super().read() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        with self._step("write"):
            self.writing = True
            try:
                with super().write() as connection:
                    yield connection
            finally:
                self.writing = False

    def transact(self, work: Callable[[Connection], T]) -> T:
        with self.switch.forgetting() as kept:
            # It has no effect outside the database but what it returns.
            result = super().transact(work)
            kept.append(result)
        return result

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        footprint = Footprint()
        if not self.writing:
            self.keep_snapshot()
            self.switch.reach(name, footprint)
            self._kept = False
        self._open.append(footprint)
        self.switch.holds += 1
        try:
            yield
        finally:
            self._open.remove(footprint)
            self.switch.holds -= 1
            # Of one that this was within, it was kept before.
            self._kept = bool(self._open)
            if not self._open:
                self.switch.release_snapshot()

    def keep_snapshot(self) -> None:
        """Tell the switch that what an open transaction reads later it reads as of its begin.

        What that is may follow from what it sees outside the database meanwhile, so it may be
        anything.
        """
        if self._open and not self._kept:
            self._kept = True
            self.switch.keep_snapshot()
        for footprint in self._open:
            footprint.reads.update(metadata.tables)

    def _note(self, _connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        # All that a transaction reads it reads as of its first statement.
        for footprint in self._open:
            footprint.add_statement(statement)

    def touch(self, footprint: Footprint) -> None:
        """Note what the open transaction touches besides the database."""
        for transaction in self._open:
            transaction.add(footprint)

    def _see(self, seen: object) -> None:
        self.switch.see(seen)

    def _connect(self, _dialect: Any, _record: Any, _args: Any, options: dict[str, Any]) -> None:
        options["factory"] = partial(_SeenConnection, self._see)


class _SeenConnection(sqlite3.Connection):
    """A connection that tells of every row that is fetched through it."""

    def __init__(self, see: Callable[[object], None], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.see = see

    def cursor(self, _factory: Any = None) -> Any:
        return super().cursor(_SeenCursor)


class _SeenCursor(sqlite3.Cursor):
    def execute(self, statement: str, values: Any = (), /) -> _SeenCursor:
        self._counted(super().execute, statement, values)
        return self

    def executemany(self, statement: str, values: Any, /) -> _SeenCursor:
        self._counted(super().executemany, statement, values)
        return self

    def fetchone(self) -> Any:
        return self._told(super().fetchone())

    def fetchmany(self, *args: Any, **options: Any) -> list[Any]:
        return self._told(super().fetchmany(*args, **options))

    def fetchall(self) -> list[Any]:
        return self._told(super().fetchall())

    def _counted(self, execute: Callable[..., object], *args: Any) -> None:
        try:
            execute(*args)
        except sqlite3.Error as error:
            self._told(repr(error))
            raise
        self._told(self.rowcount)

    def _told(self, seen: T) -> T:
        assert isinstance(self.connection, _SeenConnection)
        self.connection.see(seen)
        return seen


class SwitchingClock(FakeClock):
    """The clock of one task. To move it on is a step, because all others see it."""

    def __init__(self, inner: FakeClock, switch: Switch) -> None:
        self._inner = inner
        self._switch = switch

    def now(self) -> datetime:
        now = self._inner.now()
        self._switch.see(now, reads=(CLOCK,))
        return now

    def advance(self, by: timedelta | None = None, **parts: float) -> datetime:
        self._switch.reach("wait", Footprint(writes={CLOCK}))
        return self._inner.advance(by, **parts)

    def set(self, to: datetime) -> None:
        self._switch.reach("wait", Footprint(writes={CLOCK}))
        self._inner.set(to)


class SwitchingStorage(StorageWrapper):
    """A storage of which every call is a step."""

    def __init__(
        self, inner: Storage, switch: Switch, database: SwitchingDatabase, folder: str = ""
    ) -> None:
        super().__init__(inner)
        self._switch = switch
        self._database = database
        self._folder = folder
        """Where it lies in the whole storage."""
        # On a disk, where a folder stays until somebody removes it.
        self._root = Path(path_of(inner.url))

    def below(self, inner: Storage) -> SwitchingStorage:
        """A storage that is a folder of this one."""
        folder = inner.url.removeprefix(f"{self.url}/")
        return SwitchingStorage(inner, self._switch, self._database, f"{self._folder}{folder}/")

    def _reach(
        self,
        call: str,
        *,
        reads: Sequence[str] = (),
        writes: Sequence[str] = (),
        prefix: str | None = None,
        level: str | None = None,
        makes: str | None = None,
    ) -> None:
        """Let others go before this step. It ``makes`` an object, and the folders above it."""
        within = self._folder
        footprint = Footprint(
            {of_object(within + address) for address in reads},
            {of_object(within + address) for address in writes},
            set() if prefix is None else {of_object(within + prefix)},
            set() if level is None else {of_folder(within + level)},
        )
        if writes:
            # What is written carries the time.
            footprint.reads.add(CLOCK)
        if self._database.writing:
            self._find_folders(footprint, makes)
            self._database.touch(footprint)
            return
        self._database.keep_snapshot()
        about = [*reads, *writes, *(name for name in (prefix, level) if name is not None)]
        self._switch.reach(f"{call} {about[0] if about else ''}".strip(), footprint)
        self._find_folders(footprint, makes)

    def _find_folders(self, footprint: Footprint, address: str | None) -> None:
        """Note the folders above an object that is about to be made: some are made with it."""
        if address is None:
            return
        for folder in PurePosixPath(address).parents[:-1]:
            there = (self._root / folder).is_dir()
            name = of_object(f"{self._folder}{folder}")
            (footprint.reads if there else footprint.writes).add(name)

    def _told(self, call: Callable[[], T], summary: Callable[[T], object] = lambda it: it) -> T:
        """The result of a call, which the switch is told of, and of an error as well."""
        try:
            result = call()
        except Exception as error:
            self._switch.see(repr(error))
            raise
        self._switch.see(summary(result))
        return result

    def put(self, address: str, data: Payload, *, create: bool = False) -> None:
        self._reach("put", writes=[address], makes=address)
        self._told(lambda: self.inner.put(address, data, create=create))

    def get(self, address: str) -> bytes:
        self._reach("get", reads=[address])
        return self._told(lambda: self.inner.get(address), _digest)

    def stream(self, address: str) -> Iterator[bytes]:
        self._reach("get", reads=[address])
        return iter([self._told(lambda: b"".join(self.inner.stream(address)), _digest)])

    def reader(self, address: str) -> BinaryIO:
        self._reach("get", reads=[address])
        reader = self._told(lambda: self.inner.reader(address), lambda _: "opened")
        # Who has opened an object reads what it was then.
        self._told(lambda: self.inner.get(address), _digest)
        return reader

    def head(self, address: str) -> StoredObject:
        self._reach("head", reads=[address])
        return self._told(lambda: self.inner.head(address))

    def list(self, prefix: str = "", *, after: str = "", until: str = "") -> Iterator[StoredObject]:
        self._reach("list", prefix=prefix)
        return iter(self._told(lambda: self._listed(prefix, after, until)))

    def batches(
        self, prefix: str = "", *, after: str = "", until: str = ""
    ) -> Iterator[pa.RecordBatch]:
        self._reach("list", prefix=prefix)
        return as_batches(self._told(lambda: self._listed(prefix, after, until)))

    def _listed(self, prefix: str, after: str, until: str) -> Sequence[StoredObject]:
        """All at once, and in order: a folder lists its files in any."""
        return sorted(
            self.inner.list(prefix, after=after, until=until), key=lambda stored: stored.address
        )

    def folders(self, prefix: str = "") -> tuple[Sequence[str], Sequence[StoredObject]]:
        self._reach("list", level=prefix)
        folders, objects = self._told(lambda: self.inner.folders(prefix), lambda _: "listed")
        listed = sorted(folders), sorted(objects, key=lambda stored: stored.address)
        self._switch.see(listed)
        return listed

    def copy(self, source: str, target: str) -> None:
        self._reach("copy", reads=[source], writes=[target], makes=target)
        self._told(lambda: self.inner.copy(source, target))

    def move(
        self,
        source: str,
        target: str,
        *,
        size: int,
        fresh: datetime | None = None,
        last_check: LastCheck = no_check,
    ) -> None:
        self._reach("move", writes=[source, target], makes=target)
        self._told(
            lambda: self.inner.move(source, target, size=size, fresh=fresh, last_check=last_check)
        )

    def delete(self, address: str) -> None:
        self._reach("delete", writes=[address])
        self._told(lambda: self.inner.delete(address))

    def delete_page(self, addresses: Sequence[str]) -> None:
        self._reach("delete", writes=list(addresses))
        self._told(lambda: self.inner.delete_page(addresses))

    def same(self, first: str, second: str) -> bool:
        self._reach("compare", reads=[first, second])
        return self._told(lambda: self.inner.same(first, second))

    def flush(self, addresses: Iterable[str]) -> None:
        flushed = [*addresses]
        if flushed:
            self._reach("flush", reads=flushed)
        self._told(lambda: self.inner.flush(flushed))

    def flush_moved(self, addresses: Iterable[str]) -> None:
        flushed = [*addresses]
        if flushed:
            self._reach("flush", reads=flushed)
        self._told(lambda: self.inner.flush_moved(flushed))

    def drop_folder(self, folder: str) -> None:
        self._reach("drop", writes=[folder], level=folder)
        self._told(lambda: self.inner.drop_folder(folder))


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()
