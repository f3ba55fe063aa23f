"""The interface of an engine: the steps of a run whose size is that of the data.

Spark is one engine. Another, in ``reclaim.testing``, runs the same tasks in one process with
sets in memory; what the two find must be the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.lifecycle import (
    LifecycleCarryRequest,
    LifecycleFindings,
    LifecycleIndex,
    LifecycleIndexRequest,
    LifecycleSearch,
    PublishRequest,
    RangeFiles,
    RangesRequest,
    Rejudged,
    RejudgeRequest,
)
from reclaim.engine.tasks.deleting import Deleter, Outcome
from reclaim.engine.tasks.judging import CandidateRules, Verdict
from reclaim.engine.tasks.parts import Part, Place, write_part
from reclaim.engine.tasks.promised import Unread
from reclaim.engine.tasks.quarantine import Aside
from reclaim.engine.tasks.reading import LIVE, as_named
from reclaim.engine.tasks.shielding import Matches, MatchRequest, MergeRequest, ShieldRequest
from reclaim.engine.uncommitted import (
    Carried,
    CarryRequest,
    Copied,
    CopyRequest,
    DeadEntries,
    DeadRequest,
    Indexed,
    IndexRequest,
    UncommittedFindings,
    UncommittedSearch,
)
from reclaim.storage import KeyRange, Storage
from reclaim.stores.format import DecodesSnapshots, Format, SurveysContainers


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
    landmarks: Sequence[str] = ()
    """Addresses by which one can tell that it is this store that was listed."""


def count_landmarks(objects: Objects, rows: pa.Table) -> int:
    """How many of some rows are landmarks."""
    if not objects.landmarks:
        return 0
    named = pa.array(objects.landmarks, pa.string())
    return pc.sum(pc.is_in(rows.column("address"), value_set=named)).as_py() or 0


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
    landmarks: int = 0
    """How many of the landmarks are among them."""
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
class ExpandRequest:
    """Which containers to expand: those that snapshots name, as ``SNAPSHOT_CONTAINERS``."""

    format: Format
    containers: pa.Table
    place: Place
    known: Sequence[Part] = ()
    """Containers of which the live ones are left out."""
    surveyed: Surveyed | None = None
    """What a survey found in the storage of the place, so that it need not be read again."""


@dataclass(frozen=True, slots=True)
class FindRequest:
    """Which objects to judge, and what is live."""

    format: Format
    objects: Objects
    containers: ContainerFiles
    held: Sequence[str]
    """Files with addresses, in the storage of the place."""
    rules: CandidateRules
    place: Place
    work: Place
    """For what is not needed afterwards, in the same storage."""
    search: UncommittedSearch | None = None
    """How to find them by the index, where that is there: then containers are not read."""
    lifecycle: LifecycleSearch | None = None
    """How to find them by lifecycle rules, whatever refers to them. Without parts of ``objects``
    they are looked up one by one."""


@dataclass(frozen=True, slots=True)
class ConfirmRequest:
    """Which candidates to look at once more, and what is live since they were found."""

    format: Format
    candidates: Sequence[Part]
    revived: ContainerFiles
    held: Sequence[str]
    closed: frozenset[str]
    """The guards that protect nothing any more."""
    done: Sequence[Part]
    """The journal of earlier applies."""
    place: Place
    work: Place


@dataclass(frozen=True, slots=True)
class ExcludeRequest:
    """Which candidates to part by globs, and where the two lists go."""

    candidates: Sequence[Part]
    globs: Sequence[str]
    included: Place
    excluded: Place
    earlier: Sequence[Part] = ()
    """Lists with paths that the plan does not show: of what earlier applies left out, and all those
    of what lifecycle rules match."""


@dataclass(frozen=True, slots=True)
class Excluded:
    """Candidates that no glob matches and those that one does, each kind in parts of its own."""

    included: Sequence[Part]
    excluded: Sequence[Part]
    matches: Sequence[int]
    """How many candidates each glob matches."""


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """Which candidates to take away, and for how long one may be at it."""

    format: Format
    candidates: Sequence[Part]
    kind: str
    done: Sequence[Part]
    """The journal of earlier waves."""
    deleter: Deleter
    time: timedelta
    place: Place


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """Lists of what a run was about to take, and its notes, all in the storage of ``source``."""

    intended: Sequence[Part]
    journal: Sequence[Part]
    notes: Sequence[Part]
    """Notes of tasks on the way. No list vouches for them: they tell of objects that are in one
    of the others, and add none."""
    source: Place
    aside: Aside | None
    """Where objects are now, if they were moved."""
    place: Place


@dataclass(frozen=True, slots=True)
class IncompleteRequest:
    """Which snapshot containers to check against what exists."""

    format: Format
    containers: pa.Table
    objects: Objects
    place: Place
    not_back: Sequence[Part] = ()
    """Journals of what was to be brought back, in the storage of the place. What failed does not
    count, whatever lies in its place."""
    aside: Aside | None = None
    """Where the objects of these journals were, if they had been moved."""
    expired: Sequence[Part] = ()
    """Addresses that rules took, in the storage of the place: nobody misses them."""


@dataclass(frozen=True, slots=True)
class NeededRequest:
    """Which snapshots runs can bring back, by the containers that they name: as ``PROMISED``."""

    format: Format
    containers: pa.Table
    place: Place
    known: Sequence[Part] = ()
    """Containers, in the storage of the place, of which the live ones are left out: what they list
    is needed anyway."""


@dataclass(frozen=True, slots=True)
class Needed:
    """What promised snapshots need, in files that are hashed by name."""

    parts: Sequence[Part] = ()
    unread: Unread = field(default_factory=Unread)
    """Containers that could be read nowhere: what they list is missing in the files."""


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks of the jobs that are at work: how many have finished, of how many."""

    finished: int
    total: int


class Meter(Protocol):
    """Tells how far an engine is, to people who watch; from any thread, and never an error."""

    def units(self) -> Mapping[str, int]:
        """What tasks have told so far that they did, by unit (``objects``, ``containers``).

        It only grows; the difference between two readings is what was done in between.
        """
        ...

    def tasks(self) -> Tasks:
        """The tasks of the jobs that are at work."""
        ...

    def close(self) -> None: ...


class Engine(Protocol):
    """Spreads the tasks of a run."""

    def list(self, format: Format, ranges: Sequence[KeyRange], place: Place) -> Objects:
        """List key ranges and write down what is there."""
        ...

    def survey(self, format: DecodesSnapshots, ranges: Sequence[KeyRange]) -> pa.Table:
        """List key ranges and read the snapshots in them: for stores whose graph is in files."""
        ...

    def survey_containers(
        self, format: SurveysContainers, ranges: Sequence[KeyRange], place: Place
    ) -> Surveyed:
        """Do the same, and write down what the snapshots list."""
        ...

    def snapshots(self, format: DecodesSnapshots, addresses: Sequence[str]) -> pa.Table:
        """Read some snapshots of such a store."""
        ...

    def noncurrent(self, format: Format, folders: Sequence[str]) -> tuple[int, int]:
        """How many versions a bucket keeps of what was deleted or replaced, and their bytes."""
        ...

    def expand(self, request: ExpandRequest) -> ContainerFiles:
        """All containers of snapshots, each once, live ones before dead ones."""
        ...

    def find(self, request: FindRequest) -> Candidates:
        """Objects that no live container lists and nothing holds, judged."""
        ...

    def verify(self, files: Sequence[Part], place: Place) -> Mapping[str, tuple[int, int]]:
        """Refuse parts that are not as they were written.

        Of those that list objects, how many there are of each kind, and their bytes.
        """
        ...

    def intersect(
        self, planned: Sequence[Part], others: Sequence[Part], place: Place
    ) -> Sequence[Part]:
        """The planned candidates whose addresses others have too, as they were planned.

        They are written down by kind, as by ``confirm``. Addresses are compared whole.
        """
        ...

    def exclude(self, request: ExcludeRequest) -> Excluded:
        """Part candidates by globs; see ``tasks.excluding``. Every one is in one of the lists."""
        ...

    def confirm(self, request: ConfirmRequest) -> Candidates:
        """Candidates that nothing reaches now either, without those that were done before.

        They are written down by kind: the group of a part is the kind of its objects.
        """
        ...

    def sweep(self, request: SweepRequest) -> Swept:
        """Take the candidates of one kind away, for as long as there is time.

        When it fails, tasks of it may still be at work, until the time is over; see ``ended``.
        """
        ...

    def ended(self) -> bool:
        """Whether it is certain that no task of a call that failed is at work any more."""
        ...

    def recall(self, request: RecallRequest) -> Sequence[Part]:
        """Objects that a run may have taken, each once, with the identity that its journal has.

        Each is among what was intended, or in the journal.
        """
        ...

    def needed(self, request: NeededRequest) -> Needed:
        """Every address that promised snapshots need.

        Each container is read once, at home or in quarantine; one that can be read nowhere is
        counted where that is noticed.
        """
        ...

    def incomplete(self, request: IncompleteRequest) -> frozenset[str]:
        """Snapshot containers that need something which is not there, or cannot be read."""
        ...

    def index(self, request: IndexRequest) -> Indexed:
        """Read live containers that are not known, and write their entries down by partition."""
        ...

    def dead_entries(self, request: DeadRequest) -> DeadEntries:
        """Read dead containers, and write down what they list."""
        ...

    def carry(self, request: CarryRequest) -> Carried:
        """Addresses that a run did not take, written down, and what it took by partition."""
        ...

    def match(self, request: MatchRequest) -> Matches:
        """Paths in dead containers that globs match, with their addresses, written down."""
        ...

    def shield(self, request: ShieldRequest) -> Sequence[Part]:
        """Addresses with the glob that a path of theirs matches, as ``SHIELDS``, written down."""
        ...

    def merge(self, request: MergeRequest) -> Sequence[Part]:
        """Lists of paths put together: each path once, of those that globs match."""
        ...

    def copy(self, request: CopyRequest) -> Copied:
        """Copy parts, each verified by its hash, to another place."""
        ...

    def lifecycle_ranges(self, request: RangesRequest) -> RangeFiles:
        """The distinct ranges of metaranges, with the union of what reaches them."""
        ...

    def rejudge(self, request: RejudgeRequest) -> Rejudged:
        """The addresses of a lifecycle plan that some path holds by what reaches it since."""
        ...

    def carry_matched(self, request: LifecycleCarryRequest) -> Sequence[Part]:
        """Addresses that a rule matches and that a run did not take."""
        ...

    def publish(self, request: PublishRequest) -> None:
        """Write down the addresses of a run of lifecycle rules, each row with the run."""
        ...

    def lifecycle_index(self, request: LifecycleIndexRequest) -> LifecycleIndex:
        """Read live ranges, and write their entries into the index of lifecycle runs."""
        ...
