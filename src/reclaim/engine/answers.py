"""Answers of an engine to requests of a run: files, and counts taken while they were written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.lifecycle import (
    LifecycleFindings,
)
from reclaim.engine.tasks.deleting import Outcome
from reclaim.engine.tasks.judging import Verdict
from reclaim.engine.tasks.parts import Part, Place, write_part
from reclaim.engine.tasks.promised import Unread
from reclaim.engine.tasks.reading import LIVE, as_named
from reclaim.engine.tasks.sampling import Sample
from reclaim.engine.uncommitted import (
    UncommittedFindings,
)
from reclaim.storage import Storage
from reclaim.stores.format import Format


@dataclass(frozen=True, slots=True)
class Objects:
    """Existing objects: a listing of Reclaim, or an inventory from elsewhere.

    ``columns`` are the names of the address, size and time columns in the files, ``cut`` is the
    prefix before each address there. ``before`` is the date of the inventory: younger objects are
    not judged by it.
    """

    url: str
    parts: Sequence[Part]
    columns: tuple[str, str, str] = ("address", "size", "last_modified")
    cut: str = ""
    before: datetime | None = None
    verified: bool = True
    """Whether the parts carry hashes."""


@dataclass(frozen=True, slots=True)
class ContainerFiles:
    """Snapshot containers and the containers they list, in files, each once."""

    parts: Sequence[Part]
    of_snapshots: int
    """Live snapshot containers, read or taken by name."""
    containers: int
    """Live containers in total."""
    entries: int
    """Entries the live containers must have."""
    dead: int = 0
    """Containers listed by dead snapshots only."""


NO_CONTAINERS = ContainerFiles((), 0, 0, 0)


def named_containers(
    format: Format, containers: pa.Table, place: Place, storage: Storage
) -> ContainerFiles | None:
    """Write snapshot containers down without reading any; None if a name alone is not enough."""
    has_to = pc.is_in(containers.column("kind"), pa.array(format.reads, pa.string()))
    if pc.any(has_to).as_py():
        return None
    rows = as_named(containers)
    live = pc.sum(pc.equal(rows.column("cause"), LIVE)).as_py() or 0
    parts = [write_part(storage, place.at("named.parquet"), rows)] if rows.num_rows else []
    return ContainerFiles(parts, live, live, entries=0, dead=rows.num_rows - live)


@dataclass(slots=True)
class Read:
    """Amount of live data that was read."""

    containers: int = 0
    entries: int = 0
    held: int = 0


@dataclass(slots=True)
class Candidates:
    """Candidates in files, the verdict on them, and the amount of data read."""

    parts: Sequence[Part] = ()
    verdict: Verdict = field(default_factory=Verdict)
    read: Read = field(default_factory=Read)
    objects: int = 0
    size: int = 0
    """Bytes of all objects looked at."""
    sample: Sample = field(default_factory=Sample)
    """Sample of live objects every listing must have; ``sampled`` of them were listed."""
    sampled: int = 0
    uncommitted: UncommittedFindings | None = None
    """For a search by the index."""
    lifecycle: LifecycleFindings | None = None
    """For a search by lifecycle rules."""


@dataclass(slots=True)
class Swept:
    """Outcome of a wave of deletes. ``finished`` is false if time ran out."""

    parts: Sequence[Part] = ()
    outcome: Outcome = field(default_factory=Outcome)
    finished: bool = True


@dataclass(frozen=True, slots=True)
class Surveyed:
    """Snapshots stored as files, as ``SNAPSHOTS``, and the containers each of them lists, in
    files."""

    rows: pa.Table
    listed: Sequence[Part]
    """As ``OWNED``, of all snapshots without faults."""

    def part(self, format: Format, containers: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Split snapshot containers into those to read and those with known lists."""
        whole = self.rows.filter(
            pc.and_(pc.is_valid(self.rows.column("id")), pc.is_null(self.rows.column("fault")))
        )
        read = pc.is_in(containers.column("address"), whole.column("address").combine_chunks())
        has_to = pc.is_in(containers.column("kind"), pa.array(format.reads, pa.string()))
        known = pc.and_(read, has_to)
        return containers.filter(pc.invert(known)), containers.filter(known)


@dataclass(frozen=True, slots=True)
class Excluded:
    """Candidates no glob matches, and candidates a glob matches, in separate parts."""

    included: Sequence[Part]
    excluded: Sequence[Part]
    matches: Sequence[int]
    """Number of candidates each glob matches."""


@dataclass(frozen=True, slots=True)
class Needed:
    """Objects needed by promised snapshots, in files hashed by name."""

    parts: Sequence[Part] = ()
    unread: Unread = field(default_factory=Unread)
    """Containers unreadable everywhere: the objects they list are missing in the files."""
