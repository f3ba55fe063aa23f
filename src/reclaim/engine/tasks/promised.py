"""Needs of promised snapshots: those that runs condemned or put in quarantine, and can bring back.

Their containers are read at home or, where they are not, from the quarantine of their run. What
cannot be read at either place is counted: nobody knows what it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks.quarantine import Aside
from reclaim.engine.tasks.reading import reader_of
from reclaim.errors import Corrupt, NotFound
from reclaim.storage import Storage
from reclaim.storage.buckets import Bucket, Version, open_bucket
from reclaim.stores.format import CONTAINERS, NO_READ, Format, ReadsBytes

NOT_THERE = (Corrupt, NotFound)
COVERED = ""
"""Instead of a folder of quarantine: objects are under delete markers, where they were."""
UNREAD = "unread"
"""The detail of a snapshot container that could not be read. It comes after ``NO_READ``: what can
be read in one of several quarantines was read."""
SHOWN = 5
"""How many containers a message names."""

PROMISED = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        # The quarantine of its run: a folder, or COVERED.
        pa.field("aside", pa.string(), nullable=False),
    ]
)
"""The containers that promised snapshots name themselves."""

LISTED_CONTAINERS = pa.schema(
    [
        *(CONTAINERS.field(name) for name in ("address", "kind", "detail", "entries")),
        PROMISED.field("aside"),
    ]
)
"""Containers of promised snapshots, as often as they are listed."""

EACH_CONTAINER = pa.schema(
    [*list(LISTED_CONTAINERS)[:-1], pa.field("asides", pa.list_(pa.string()), nullable=False)]
)
"""The same, each once, with every quarantine that it may be in."""

NEEDED = pa.schema([pa.field("address", pa.string(), nullable=False)])


@dataclass(slots=True)
class Unread:
    """Containers that could be read nowhere: how many, the first few, and where they may be."""

    count: int = 0
    examples: list[str] = field(default_factory=list)
    asides: set[str] = field(default_factory=set)
    """Each quarantine that one of them may be in."""

    def add(self, address: str, asides: Iterable[str]) -> None:
        self.count += 1
        self.asides.update(asides)
        if len(self.examples) < SHOWN:
            self.examples.append(address)

    def report(self) -> Mapping[str, Any]:
        """The same as a task reports it."""
        return {"count": self.count, "examples": self.examples, "asides": sorted(self.asides)}

    @classmethod
    def of(cls, reports: Iterable[Mapping[str, Any]]) -> Unread:
        """The reports of several tasks, together."""
        together = cls()
        for report in reports:
            together.count += report["count"]
            together.examples += report["examples"]
            together.asides.update(report["asides"])
        together.examples = sorted(together.examples)[:SHOWN]
        return together


def promised_containers(addresses: Sequence[str], kind: str, aside: str) -> pa.Table:
    """Containers of one kind, of snapshots that one run can bring back, as ``PROMISED``."""
    rows = len(addresses)
    columns = (
        pa.array(addresses, pa.string()),
        pa.repeat(pa.scalar(kind, pa.string()), rows),
        pa.repeat(pa.scalar(aside, pa.string()), rows),
    )
    return pa.table(columns, schema=PROMISED)


def list_containers(format: Format, storage: Storage, promised: pa.Table) -> Iterator[pa.Table]:
    """Snapshot containers and the containers that they list, as ``LISTED_CONTAINERS``."""
    for row in promised.to_pylist():
        address, aside = row["address"], row["aside"]
        detail, listed = NO_READ, None
        if row["kind"] in format.reads:
            read = partial(_containers, format, address)
            listed = _read(format, storage, address, [aside], read)
            detail = UNREAD if listed is None else NO_READ
        itself = [address, row["kind"], detail, 0, aside]
        columns = zip(itself, LISTED_CONTAINERS, strict=True)
        yield pa.table([pa.array([v], f.type) for v, f in columns], schema=LISTED_CONTAINERS)
        if listed is not None:
            asides = pa.repeat(pa.scalar(aside, pa.string()), listed.num_rows)
            known = listed.select(LISTED_CONTAINERS.names[:-1])
            yield pa.table([*known.columns, asides], schema=LISTED_CONTAINERS)


def needed(
    format: Format, storage: Storage, containers: pa.Table, unread: Unread
) -> Iterator[pa.Table]:
    """The containers, given as ``EACH_CONTAINER``, and what they list, as ``NEEDED``.

    Those that can be read nowhere are added to ``unread``.
    """
    yield containers.select(NEEDED.names).cast(NEEDED)
    listing = containers.filter(pc.not_equal(containers.column("detail"), NO_READ))
    for container in listing.to_pylist():
        address, asides, entries = container["address"], container["asides"], None
        if container["detail"] != UNREAD:
            read = partial(_entries, format, container)
            entries = _read(format, storage, address, asides, read)
        if entries is None:
            unread.add(address, asides)
        else:
            yield entries.select(NEEDED.names).cast(NEEDED)


def _containers(format: Format, address: str, source: ReadsBytes) -> pa.Table:
    return reader_of(format).containers(source, address)


def _entries(format: Format, container: Mapping[str, Any], source: ReadsBytes) -> pa.Table:
    return reader_of(format).entries(source, container, paths=False)


@dataclass(frozen=True, slots=True)
class _Moved:
    """The objects of a store as they lie in the quarantine of a run."""

    storage: Storage
    aside: Aside

    def get(self, address: str) -> bytes:
        return self.storage.get(self.aside.of(address))


@dataclass(frozen=True, slots=True)
class _Covered:
    """A version of an object of a bucket that is not current, or that others wrote over."""

    bucket: Bucket
    version: Version

    def get(self, address: str) -> bytes:
        if address != self.version.address:
            raise NotFound(f"{address} is not {self.version.address}")
        return self.bucket.get(self.version)


def _sources(
    format: Format, storage: Storage, address: str, aside: str
) -> Iterator[_Moved | _Covered]:
    """The places that may hold a container that is not at home.

    Which version a marker was set on, only the journal of its run tells. Here it is enough that
    it is among them: what others wrote there protects too much, and not too little.
    """
    if aside != COVERED:
        yield _Moved(storage, Aside(format.prefix, aside))
        return
    bucket = open_bucket(storage.url)
    for version in bucket.versions_of(address):
        if not version.marker:
            yield _Covered(bucket, version)


def _read(
    format: Format,
    storage: Storage,
    address: str,
    asides: Iterable[str],
    read: Callable[[ReadsBytes], pa.Table],
) -> pa.Table | None:
    """Entries of a container, read at home or in quarantine; None if it can be read nowhere.

    One of an unknown version stops the run, as a live one does: nobody knows what it protects.
    """
    try:
        return read(storage)
    except NOT_THERE:
        pass
    for aside in sorted(asides):
        tables = []
        for source in _sources(format, storage, address, aside):
            with suppress(*NOT_THERE):
                tables.append(read(source))
        if tables:
            return pa.concat_tables(tables)
    # An undo may have brought it back in between.
    with suppress(*NOT_THERE):
        return read(storage)
    return None
