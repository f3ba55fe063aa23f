"""A database and a storage that let a scheduler switch before every transaction and every call.

An open transaction that reads does not hold up others, so calls to the storage are steps inside it.
One that writes does: on SQLite nobody else could write, so nothing in it is a step of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
from sqlalchemy import Connection, Engine, event

from reclaim.catalog.database.transactions import Database
from reclaim.model import StoredObject
from reclaim.storage import LastCheck, Payload, Storage, unchecked
from reclaim.testing.footprints import Footprint, of_object
from reclaim.testing.storage import StorageWrapper


class Switch(Protocol):
    """Is told before each step of a task. What a transaction touches is noted while it runs."""

    def reach(self, name: str, footprint: Footprint) -> None: ...


class SwitchingDatabase(Database):
    """A database of which every transaction is a step."""

    def __init__(self, engine: Engine, name: str, switch: Switch) -> None:
        super().__init__(engine, name)
        self.switch = switch
        self._open: list[Footprint] = []
        self.writing = False
        event.listen(engine, "before_cursor_execute", self._note)

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

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        footprint = Footprint()
        if not self.writing:
            self.switch.reach(name, footprint)
        self._open.append(footprint)
        try:
            yield
        finally:
            self._open.remove(footprint)

    def _note(self, _connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        # All that a transaction reads it reads as of its first statement.
        for footprint in self._open:
            footprint.add_statement(statement)


class SwitchingStorage(StorageWrapper):
    """A storage of which every call is a step, but for those that only make writes last."""

    def __init__(self, inner: Storage, switch: Switch, database: SwitchingDatabase) -> None:
        super().__init__(inner)
        self._switch = switch
        self._database = database

    def _reach(
        self,
        call: str,
        *,
        reads: Sequence[str] = (),
        writes: Sequence[str] = (),
        prefix: str | None = None,
    ) -> None:
        if self._database.writing:
            return
        footprint = Footprint(
            {of_object(address) for address in reads},
            {of_object(address) for address in writes},
            set() if prefix is None else {of_object(prefix)},
        )
        about = [*reads, *writes, *([] if prefix is None else [prefix])]
        self._switch.reach(f"{call} {about[0] if about else ''}".strip(), footprint)

    def put(self, address: str, data: Payload, *, create: bool = False) -> None:
        self._reach("put", writes=[address])
        super().put(address, data, create=create)

    def get(self, address: str) -> bytes:
        self._reach("get", reads=[address])
        return super().get(address)

    def stream(self, address: str) -> Iterator[bytes]:
        self._reach("get", reads=[address])
        return super().stream(address)

    def reader(self, address: str) -> BinaryIO:
        self._reach("get", reads=[address])
        return super().reader(address)

    def head(self, address: str) -> StoredObject:
        self._reach("head", reads=[address])
        return super().head(address)

    def list(self, prefix: str = "", *, after: str = "", until: str = "") -> Iterator[StoredObject]:
        self._reach("list", prefix=prefix)
        return super().list(prefix, after=after, until=until)

    def batches(
        self, prefix: str = "", *, after: str = "", until: str = ""
    ) -> Iterator[pa.RecordBatch]:
        self._reach("list", prefix=prefix)
        return super().batches(prefix, after=after, until=until)

    def folders(self, prefix: str = "") -> tuple[Sequence[str], Sequence[StoredObject]]:
        self._reach("list", prefix=prefix)
        return super().folders(prefix)

    def copy(self, source: str, target: str) -> None:
        self._reach("copy", reads=[source], writes=[target])
        super().copy(source, target)

    def move(
        self,
        source: str,
        target: str,
        *,
        size: int,
        fresh: datetime | None = None,
        last_check: LastCheck = unchecked,
    ) -> None:
        self._reach("move", writes=[source, target])
        super().move(source, target, size=size, fresh=fresh, last_check=last_check)

    def delete(self, address: str) -> None:
        self._reach("delete", writes=[address])
        super().delete(address)

    def delete_page(self, addresses: Sequence[str]) -> None:
        self._reach("delete", writes=list(addresses))
        super().delete_page(addresses)

    def drop_folder(self, folder: str) -> None:
        self._reach("drop", writes=[folder])
        super().drop_folder(folder)
