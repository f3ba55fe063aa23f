"""The interface of an engine: the steps of a run whose size is that of the data.

There are two, ``spark`` and ``local``; the tests hold both to the same plans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from reclaim.engine.answers import (
    Candidates,
    ContainerFiles,
    Excluded,
    Needed,
    Objects,
    Surveyed,
    Swept,
)
from reclaim.engine.incremental import (
    Carried,
    CarryRequest,
    Copied,
    CopyRequest,
    Indexed,
    IndexRequest,
)
from reclaim.engine.lifecycle import (
    PublishRequest,
    RangeFiles,
    RangesRequest,
    Rejudged,
    RejudgeRequest,
)
from reclaim.engine.requests import (
    ConfirmRequest,
    ExcludeRequest,
    ExpandRequest,
    FindRequest,
    IncompleteRequest,
    NeededRequest,
    RecallRequest,
    SweepRequest,
)
from reclaim.engine.tasks.parts import Part, Place
from reclaim.engine.tasks.shielding import Matches, MatchRequest, MergeRequest, ShieldRequest
from reclaim.engine.uncommitted import DeadEntries, DeadRequest
from reclaim.storage import KeyRange
from reclaim.stores.format import DecodesSnapshots, Format, SurveysContainers


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks of the jobs that are at work: how many have finished, of how many."""

    finished: int
    total: int


class Meter(Protocol):
    """Tells how far an engine is, to people who watch; from any thread, and never an error."""

    def units(self) -> Mapping[str, int]:
        """The work that tasks have told of so far, by unit (``objects``, ``containers``).

        It only grows; the difference between two readings is what was done in between.
        """
        ...

    def tasks(self) -> Tasks:
        """The tasks of the jobs that are at work."""
        ...

    def close(self) -> None: ...


class Engine(Protocol):
    """Spreads the tasks of a run."""

    def start(self) -> None:
        """Return when the engine can work: before something is begun that must not wait for it."""
        ...

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
        """Read live containers that no run has read, and write their entries down by partition."""
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

    def publish(self, request: PublishRequest) -> None:
        """Write down the addresses of a run of lifecycle rules, each row with the run."""
        ...
