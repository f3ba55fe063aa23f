"""Parts: Parquet files written by tasks to a run's place, listed by the driver with their hashes.

A failed task may leave a file behind. It is in no list, so it is never read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from typing import TypeVar, TypeVarTuple

import pyarrow as pa

from reclaim.errors import NotFound, PlanRefused
from reclaim.storage import ObjectStorage, Storage, hashed_files
from reclaim.storage.hashed_files import decode, encode
from reclaim.stores.format import ReadsBytes
from reclaim.urls import url_of

ROWS = 500_000
"""Most rows of a part."""

ADDRESSES = pa.schema([pa.field("address", pa.string(), nullable=False)])
"""Addresses alone."""

Opener = Callable[[str], Storage]
_Args = TypeVarTuple("_Args")
_Loaded = TypeVar("_Loaded")


@dataclass(frozen=True, slots=True)
class Place:
    """A folder in some storage."""

    url: str
    prefix: str

    def at(self, name: str) -> str:
        return self.prefix + name

    def below(self, name: str) -> Place:
        return Place(self.url, f"{self.prefix}{name}/")

    def __str__(self) -> str:
        return url_of(self.url, self.prefix).rstrip("/")


@dataclass(frozen=True, slots=True)
class Part:
    """A file: its address, number of rows and hash.

    ``group`` is common to all rows, if rows were separated.
    """

    address: str
    rows: int
    sha256: str
    group: str = ""


@lru_cache(maxsize=8)
def open_storage(url: str) -> Storage:
    """Open a storage by its URL, once for each process."""
    return ObjectStorage.open(url)


_opener: ContextVar[Opener] = ContextVar("opener", default=open_storage)


@contextmanager
def opened_by(opener: Opener) -> Iterator[None]:
    """Open the storage of tasks in the block with the opener of their engine."""
    token = _opener.set(opener)
    try:
        yield
    finally:
        _opener.reset(token)


def task_storage(url: str) -> Storage:
    """Open the storage of a task as its engine opens storage."""
    return _opener.get()(url)


def loaded_once(most: int) -> Callable[[Callable[[*_Args], _Loaded]], Callable[[*_Args], _Loaded]]:
    """Cache the last few results of a loading function, for later tasks in this process with the
    same opener."""

    def keeping(load: Callable[[*_Args], _Loaded]) -> Callable[[*_Args], _Loaded]:
        @lru_cache(maxsize=most)
        def kept(_opener: Opener, *args: *_Args) -> _Loaded:
            return load(*args)

        @wraps(load)
        def loaded(*args: *_Args) -> _Loaded:
            return kept(_opener.get(), *args)

        return loaded

    return keeping


def write_part(storage: Storage, address: str, table: pa.Table, *, decoded: bool = False) -> Part:
    """Write a table. With ``decoded``, readers get strings in place of the table's codes."""
    data = encode(table, decoded=decoded)
    storage.put(address, data)
    return Part(address, table.num_rows, hashlib.sha256(data).hexdigest())


def write_parts(storage: Storage, stem: str, batches: Iterable[pa.Table]) -> Iterator[Part]:
    """Write tables to few files, each with a bounded number of rows."""
    waiting: list[pa.Table] = []
    rows = number = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= ROWS:
            yield write_part(storage, f"{stem}-{number}.parquet", pa.concat_tables(waiting))
            waiting, rows, number = [], 0, number + 1
    if rows:
        yield write_part(storage, f"{stem}-{number}.parquet", pa.concat_tables(waiting))


def read_part(
    storage: ReadsBytes,
    part: Part,
    columns: Sequence[str] | None = None,
    *,
    coded: Sequence[str] = (),
) -> pa.Table:
    """Return the rows of a part, some columns ``coded``. A part changed since it was written is
    refused."""
    rows = decode(_verified(storage, part), part.address, columns, coded=coded)
    if rows.num_rows != part.rows:
        raise PlanRefused(
            f"the file {part.address} has {rows.num_rows} rows; the plan says {part.rows}",
            hint="plan it again; a plan cannot be edited by hand",
        )
    return rows


def copy_part(source: ReadsBytes, target: Storage, part: Part, address: str) -> Part:
    """Copy a part to another place. A part changed since it was written is refused."""
    target.put(address, _verified(source, part))
    return replace(part, address=address)


def _verified(storage: ReadsBytes, part: Part) -> bytes:
    """Return the bytes of a part, after checking the hash."""
    try:
        data = storage.get(part.address)
    except NotFound as error:
        raise PlanRefused(
            f"the file {part.address} of the plan is missing", hint="plan it again"
        ) from error
    if hashlib.sha256(data).hexdigest() != part.sha256:
        raise PlanRefused(
            f"the file {part.address} of the plan was changed after it was written",
            hint="plan it again; a plan cannot be edited by hand",
        )
    return data


def hashed_part(address: str, rows: int) -> Part:
    """Return the part for a file named by its hash, with its number of rows."""
    return Part(address, rows, address.rpartition(".")[0].rpartition("-")[2])


def write_hashed(storage: Storage, stem: str, table: pa.Table) -> Part:
    """Write a file whose name ends with its hash."""
    address, digest = hashed_files.write(storage, stem, table)
    return Part(address, table.num_rows, digest)
