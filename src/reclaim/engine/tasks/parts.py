"""Parts: Parquet files that tasks write to a run's place, listed by the driver with their hashes.

A task that failed may leave a file behind. It is in no list, so nobody reads it.
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
"""How many rows a part has at most."""

ADDRESSES = pa.schema([pa.field("address", pa.string(), nullable=False)])
"""Addresses of which nothing else is known."""

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
    """One file: where it is, how many rows it has, what it must hash to.

    ``group`` is what its rows have in common, where they were sorted apart.
    """

    address: str
    rows: int
    sha256: str
    group: str = ""


@lru_cache(maxsize=8)
def open_storage(url: str) -> Storage:
    """A storage by its URL, opened once for each process."""
    return ObjectStorage.open(url)


_opener: ContextVar[Opener] = ContextVar("opener", default=open_storage)


@contextmanager
def opened_by(opener: Opener) -> Iterator[None]:
    """Open the storage of tasks in the block by an opener of the engine that runs them."""
    token = _opener.set(opener)
    try:
        yield
    finally:
        _opener.reset(token)


def task_storage(url: str) -> Storage:
    """The storage of a task, opened as its engine opens storage."""
    return _opener.get()(url)


def loaded_once(most: int) -> Callable[[Callable[[*_Args], _Loaded]], Callable[[*_Args], _Loaded]]:
    """Keep the last few results of a function that loads something, for later tasks in this
    process that open storage in the same way."""

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
    """Write a table; ``decoded`` has strings for whoever reads it where the table has codes."""
    data = encode(table, decoded=decoded)
    storage.put(address, data)
    return Part(address, table.num_rows, hashlib.sha256(data).hexdigest())


def write_parts(storage: Storage, stem: str, batches: Iterable[pa.Table]) -> Iterator[Part]:
    """Write tables as few files, each with a bounded number of rows."""
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
    """The rows of a part, some columns ``coded``; refused unless it is as it was written."""
    rows = decode(_verified(storage, part), part.address, columns, coded=coded)
    if rows.num_rows != part.rows:
        raise PlanRefused(
            f"the file {part.address} has {rows.num_rows} rows; the plan says {part.rows}",
            hint="plan it again; a plan cannot be edited by hand",
        )
    return rows


def copy_part(source: ReadsBytes, target: Storage, part: Part, address: str) -> Part:
    """Write a part to another place as it is; refused unless it is as it was written."""
    target.put(address, _verified(source, part))
    return replace(part, address=address)


def _verified(storage: ReadsBytes, part: Part) -> bytes:
    """The bytes of a part, which must have its hash."""
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
    """A file that was written so, by its name and the number of its rows."""
    return Part(address, rows, address.rpartition(".")[0].rpartition("-")[2])


def write_hashed(storage: Storage, stem: str, table: pa.Table) -> Part:
    """Write a file whose name ends with what it must hash to."""
    address, digest = hashed_files.write(storage, stem, table)
    return Part(address, table.num_rows, digest)
