"""The answers of an engine to the requests of a run: files, and what was counted on the way."""

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
    """The objects that exist: a listing that was written down, or an inventory of someone else.

    ``columns`` are the names of address, size and time in the files, ``cut`` is what stands before
    an address there. ``before`` is the inventory's date: what is younger is not judged by it.
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
    """The containers of snapshots, and those that they list, in files, each once."""

    parts: Sequence[Part]
    of_snapshots: int
    """Live ones that snapshots name themselves, of those that were read or taken by name."""
    containers: int
    """Live ones that there are."""
    entries: int
    """That the live ones must have."""
    dead: int = 0
    """Containers that only dead snapshots have."""


NO_CONTAINERS = ContainerFiles((), 0, 0, 0)


def named_containers(
    format: Format, containers: pa.Table, place: Place, storage: Storage
) -> ContainerFiles | None:
    """Snapshot containers written down, where names alone tell; None if one has to be read."""
    has_to = pc.is_in(containers.column("kind"), pa.array(format.reads, pa.string()))
    if pc.any(has_to).as_py():
        return None
    rows = as_named(containers)
    live = pc.sum(pc.equal(rows.column("cause"), LIVE)).as_py() or 0
    parts = [write_part(storage, place.at("named.parquet"), rows)] if rows.num_rows else []
    return ContainerFiles(parts, live, live, entries=0, dead=rows.num_rows - live)


@dataclass(slots=True)
class Read:
    """How much of what live snapshots need was really read."""

    containers: int = 0
    entries: int = 0
    held: int = 0


@dataclass(slots=True)
class Candidates:
    """Candidates in files, how they were judged, and what was read to find them."""

    parts: Sequence[Part] = ()
    verdict: Verdict = field(default_factory=Verdict)
    read: Read = field(default_factory=Read)
    objects: int = 0
    size: int = 0
    """All objects that were looked at, and their bytes."""
    sample: Sample = field(default_factory=Sample)
    """Some of the live objects that must be among them, and of which ``sampled`` are."""
    sampled: int = 0
    uncommitted: UncommittedFindings | None = None
    """For a search by the index."""
    lifecycle: LifecycleFindings | None = None
    """For a search by lifecycle rules."""


@dataclass(slots=True)
class Swept:
    """The outcome of a wave of deletes. ``finished`` is false when time ran out."""

    parts: Sequence[Part] = ()
    outcome: Outcome = field(default_factory=Outcome)
    finished: bool = True


@dataclass(frozen=True, slots=True)
class Surveyed:
    """Snapshots that are files, as ``SNAPSHOTS``, and what each of them lists, in files."""

    rows: pa.Table
    listed: Sequence[Part]
    """As ``OWNED``, of all that have no fault."""

    def part(self, format: Format, containers: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Snapshot containers that are to be looked at, and those whose lists are known."""
        whole = self.rows.filter(
            pc.and_(pc.is_valid(self.rows.column("id")), pc.is_null(self.rows.column("fault")))
        )
        read = pc.is_in(containers.column("address"), whole.column("address").combine_chunks())
        has_to = pc.is_in(containers.column("kind"), pa.array(format.reads, pa.string()))
        known = pc.and_(read, has_to)
        return containers.filter(pc.invert(known)), containers.filter(known)


@dataclass(frozen=True, slots=True)
class Excluded:
    """Candidates that no glob matches and those that one does, each kind in parts of its own."""

    included: Sequence[Part]
    excluded: Sequence[Part]
    matches: Sequence[int]
    """How many candidates each glob matches."""


@dataclass(frozen=True, slots=True)
class Needed:
    """The objects that promised snapshots need, in files that are hashed by name."""

    parts: Sequence[Part] = ()
    unread: Unread = field(default_factory=Unread)
    """Containers that could be read nowhere: what they list is missing in the files."""
