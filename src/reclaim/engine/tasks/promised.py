"""Objects needed by promised snapshots: condemned or quarantined by runs, and still restorable.

Their containers are read from their own addresses or, if missing there, from the quarantine of
their run. Containers unreadable at both are counted: the objects they list are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks.quarantine import QuarantineFolder
from reclaim.engine.tasks.reading import reader_of
from reclaim.errors import Corrupt, NotFound
from reclaim.storage import Storage
from reclaim.storage.buckets import Bucket, Version, open_bucket
from reclaim.stores.format import CONTAINERS, NO_READ, Format, ReadsBytes

NOT_THERE = (Corrupt, NotFound)
COVERED = ""
"""Stands for a quarantine folder: the objects are under delete markers, at their own addresses."""
UNREAD = "unread"
"""The detail of an unreadable snapshot container. It sorts after ``NO_READ``: a container readable
in one of several quarantines was read."""
SHOWN = 5
"""Containers named in a message."""

PROMISED = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        # The quarantine of its run: a folder, or COVERED.
        pa.field("aside", pa.string(), nullable=False),
    ]
)
"""Containers named by promised snapshots."""

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
"""The same, each once, with every quarantine it may be in."""

NEEDED = pa.schema([pa.field("address", pa.string(), nullable=False)])


@dataclass(slots=True)
class Unread:
    """Containers unreadable everywhere: their number, the first few, and their possible
    quarantines."""

    count: int = 0
    examples: list[str] = field(default_factory=list)
    asides: set[str] = field(default_factory=set)
    """Each quarantine an unreadable container may be in."""

    def add(self, address: str, asides: Iterable[str]) -> None:
        self.count += 1
        self.asides.update(asides)
        if len(self.examples) < SHOWN:
            self.examples.append(address)

    def report(self) -> Mapping[str, Any]:
        """Return the same as a task reports it."""
        return {"count": self.count, "examples": self.examples, "asides": sorted(self.asides)}

    @classmethod
    def of(cls, reports: Iterable[Mapping[str, Any]]) -> Unread:
        """Combine the reports of several tasks."""
        together = cls()
        for report in reports:
            together.count += report["count"]
            together.examples += report["examples"]
            together.asides.update(report["asides"])
        together.examples = sorted(together.examples)[:SHOWN]
        return together


def promised_containers(addresses: Sequence[str], kind: str, quarantine: str) -> pa.Table:
    """Return containers of a kind, of snapshots a single run can restore, as ``PROMISED``."""
    rows = len(addresses)
    columns = (
        pa.array(addresses, pa.string()),
        pa.repeat(pa.scalar(kind, pa.string()), rows),
        pa.repeat(pa.scalar(quarantine, pa.string()), rows),
    )
    return pa.table(columns, schema=PROMISED)


def list_containers(format: Format, storage: Storage, promised: pa.Table) -> Iterator[pa.Table]:
    """Yield snapshot containers and the containers they list, as ``LISTED_CONTAINERS``."""
    for row in promised.to_pylist():
        address, quarantine = row["address"], row["aside"]
        detail, listed = NO_READ, None
        if row["kind"] in format.reads:
            read = partial(_containers, format, address)
            listed = _read(format, storage, address, [quarantine], read)
            detail = UNREAD if listed is None else NO_READ
        itself = [address, row["kind"], detail, 0, quarantine]
        columns = zip(itself, LISTED_CONTAINERS, strict=True)
        yield pa.table([pa.array([v], f.type) for v, f in columns], schema=LISTED_CONTAINERS)
        if listed is not None:
            asides = pa.repeat(pa.scalar(quarantine, pa.string()), listed.num_rows)
            known = listed.select(LISTED_CONTAINERS.names[:-1])
            yield pa.table([*known.columns, asides], schema=LISTED_CONTAINERS)


def needed(
    format: Format, storage: Storage, containers: pa.Table, unread: Unread
) -> Iterator[pa.Table]:
    """Yield the containers, given as ``EACH_CONTAINER``, and their entries, as ``NEEDED``.

    Containers unreadable everywhere are added to ``unread``.
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
    """Reads the objects of a store from the quarantine of a run."""

    storage: Storage
    quarantine: QuarantineFolder

    def get(self, address: str) -> bytes:
        return self.storage.get(self.quarantine.of(address))


@dataclass(frozen=True, slots=True)
class _Covered:
    """Reads a version of an object in a bucket that is not current."""

    bucket: Bucket
    version: Version

    def get(self, address: str) -> bytes:
        if address != self.version.address:
            raise NotFound(f"{address} is not {self.version.address}")
        return self.bucket.get(self.version)


def _sources(
    format: Format, storage: Storage, address: str, quarantine: str
) -> Iterator[_Moved | _Covered]:
    """Return the possible places of a container missing at its own address.

    Only the run's journal has the exact version under a marker. Here it is enough to read all
    versions: one too many protects too much, not too little.
    """
    if quarantine != COVERED:
        yield _Moved(storage, QuarantineFolder(format.prefix, quarantine))
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
    """Return the entries of a container, read from its address or from quarantine; None if
    unreadable.

    A container of an unknown version stops the run, as a live container would: the objects it
    protects are unknown.
    """
    try:
        return read(storage)
    except NOT_THERE:
        pass
    for quarantine in sorted(asides):
        tables = []
        for source in _sources(format, storage, address, quarantine):
            with suppress(*NOT_THERE):
                tables.append(read(source))
        if tables:
            return pa.concat_tables(tables)
    # An undo may have restored it in between.
    with suppress(*NOT_THERE):
        return read(storage)
    return None
