"""Checkpoints: state left by a finished run for the next run.

All kinds of runs share a checkpoint: a common index of the entries in ranges, and a section per
kind, as of the last run of this kind. A run writes its own section and keeps the other. The run
record, in the store, has the hash of a manifest; the manifest has the hashes of all files. So write
access to files is not enough to forge a checkpoint.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any, Generic, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from reclaim.engine.tasks.parts import Part, Place
from reclaim.errors import Corrupt, NotFound, PlanRefused
from reclaim.run.plan.plan_document import ContainerCounts, File, IndexFile, LifecycleRuleDate
from reclaim.run.roots.request import RootRequest, holding
from reclaim.run_record import ADOPT, COLLECT, Phase, RunRecord, SavedManifest
from reclaim.storage import Storage
from reclaim.stores.base import Store
from reclaim.stores.format import IndexesEntries
from reclaim.stores.observation import Observation

FORMAT = 2
"""Format version of checkpoints and of the index."""
FOLDER = "_reclaim/checkpoints"
MANIFEST = "checkpoint.json"
MAX_GENERATIONS = 100
"""Maximum number of runs that add to an index before it is rebuilt, because it only grows."""
NO_CHECKPOINT = "there is no checkpoint yet"
UNREADABLE = (NotFound, Corrupt, PlanRefused, ValidationError, ValueError, KeyError, TypeError)


class Kind(StrEnum):
    """Kinds of runs with checkpoints, as named in sentences."""

    UNCOMMITTED = "uncommitted data"
    LIFECYCLE = "lifecycle rules"


class Mode(StrEnum):
    """Extent of a run: everything, or only possible changes since an earlier run."""

    FULL = "full"
    INCREMENTAL = "incremental"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Section(_Model):
    """State of a run for the next run of its kind, as of its read of the roots."""

    run: str
    made_at: AwareDatetime
    """Start of its plan. The counts may include objects other runs deleted since."""
    generation: int
    """Generation of the index when the run was planned."""
    carried: list[File]
    """Addresses the next run checks again."""


class UncommittedSection(_Section):
    """State of a store at a run on uncommitted data."""

    counts: ContainerCounts
    taken: int
    """Objects deleted by lifecycle rules in partitions that still count them."""
    partitions: File
    snapshots: File
    """Ids of the live snapshots."""
    containers: list[File]
    """Live containers."""

    def files(self) -> Sequence[File]:
        return (self.partitions, self.snapshots, *self.containers, *self.carried)


class LifecycleSection(_Section):
    """State of a store at a run of lifecycle rules. Carried addresses are those matched by a rule
    but kept."""

    today: date
    rules: list[LifecycleRuleDate]
    objects: int
    """Known data objects of the store."""
    holders: list[str]
    branches: list[str]
    """Names for the numbers in the ranges."""
    commits: File
    ranges: list[File]
    """Reachable ranges."""

    def files(self) -> Sequence[File]:
        return (self.commits, *self.ranges, *self.carried)


class IndexStep(_Model):
    """Part of the index added by a single run: the ranges it read, and their entries."""

    generation: int
    parts: list[IndexFile]
    ranges: list[File]


class CheckpointManifest(_Model):
    """Files of a checkpoint, and the data to validate it."""

    format: int = FORMAT
    run: str
    store: str
    generation: int
    """Number of runs that added to the index since it was started."""
    barriers: list[str]
    """Events before this checkpoint that invalidate older checkpoints."""
    index: list[IndexStep]
    uncommitted: UncommittedSection | None = None
    lifecycle: LifecycleSection | None = None

    def files(self) -> Sequence[File]:
        """All files of the checkpoint except the manifest."""
        sections = [part for part in (self.uncommitted, self.lifecycle) if part is not None]
        return [
            *(file for section in sections for file in section.files()),
            *(file for step in self.index for file in (*step.parts, *step.ranges)),
        ]

    @property
    def known(self) -> Known:
        kinds = {Kind.UNCOMMITTED: self.uncommitted, Kind.LIFECYCLE: self.lifecycle}
        return Known(
            self.run,
            self.store,
            frozenset(self.barriers),
            self.generation,
            frozenset(kind for kind, section in kinds.items() if section is not None),
        )

    def parts_until(self, section: _Section) -> Sequence[Part]:
        """Index files known to the run of a section."""
        return [
            file.part
            for step in self.index
            for file in step.parts
            if step.generation <= section.generation
        ]

    def parts_since(self, section: _Section | None) -> Sequence[Part]:
        """Index files added by runs of other kinds since a section; all files without a section."""
        return [file.part for step in self._steps_since(section) for file in step.parts]

    def ranges_since(self, section: _Section | None) -> Sequence[Part]:
        """Ranges whose entries are in these files."""
        return [file.part for step in self._steps_since(section) for file in step.ranges]

    def _steps_since(self, section: _Section | None) -> Sequence[IndexStep]:
        if section is None:
            return self.index
        return [step for step in self.index if step.generation > section.generation]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Checkpoint verified by the record of its run."""

    manifest: CheckpointManifest
    place: str
    """Address of the manifest."""
    size: int

    def addresses(self) -> list[str]:
        """Addresses of all files of the checkpoint."""
        return [self.place, *(file.address for file in self.manifest.files())]


# Validity of checkpoints


@dataclass(frozen=True, slots=True)
class Known:
    """Facts that decide whether a checkpoint is usable."""

    run: str
    store: str
    """Storage and uid of its store."""
    barriers: frozenset[str]
    generation: int
    kinds: frozenset[Kind]
    """Kinds of runs with a section."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Choice between a full and an incremental run, with its reason; and whether the index is
    usable."""

    mode: Mode
    why: str
    index: bool = False


def choose(
    kind: Kind, known: Known | str, *, full: bool, store: str, barriers: AbstractSet[str]
) -> Choice:
    """Choose the extent of a run. ``known`` is a checkpoint, or the reason why none is usable."""
    if full:
        return Choice(Mode.FULL, "it was asked for")
    if isinstance(known, str):
        return Choice(Mode.FULL, known)
    if known.store != store:
        return Choice(Mode.FULL, f"the checkpoint of run {known.run} is of another storage")
    if barriers - known.barriers:
        event = min(barriers - known.barriers).partition(" ")[0]
        sentences = {
            "undo": "a run was undone since, or its undo is not finished",
            "adoption": "partitions were adopted since",
        }
        since = sentences.get(event, "the store was changed by hand since")
        return Choice(Mode.FULL, f"the checkpoint of run {known.run} does not count: {since}")
    if known.generation >= MAX_GENERATIONS:
        return Choice(
            Mode.FULL,
            f"{known.generation} runs have added to the index, which is made anew",
        )
    if kind not in known.kinds:
        return Choice(
            Mode.FULL,
            f"the checkpoint of run {known.run} has nothing of {kind}, and only its index counts",
            index=True,
        )
    return Choice(Mode.INCREMENTAL, f"the checkpoint of run {known.run} counts", index=True)


S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Start(Generic[S]):
    """Starting state of a run: a section, the index alone, or nothing."""

    why: str
    checkpoint: Checkpoint | None = None
    """Checkpoint with a usable index."""
    section: S | None = None
    """Usable section of an earlier run of this kind."""

    @property
    def mode(self) -> Mode:
        return Mode.FULL if self.section is None else Mode.INCREMENTAL

    @property
    def generation(self) -> int:
        """Generation of the index written by the run."""
        return 0 if self.checkpoint is None else self.checkpoint.manifest.generation + 1

    @property
    def size(self) -> int:
        """Size of the manifest in bytes."""
        return self.checkpoint.size if self.checkpoint else 0

    def restarted(self, why: str, *, damaged: bool) -> Start[S]:
        """Switch to a full run. The index stays usable unless files are damaged."""
        return Start(why, None if damaged else self.checkpoint)

    def files(self) -> Collection[str]:
        """Addresses of the checkpoint."""
        return self.checkpoint.addresses() if self.checkpoint else ()


def find_start(
    store: Store,
    storage: Storage,
    runs: Sequence[RunRecord],
    kind: Kind,
    read: Callable[[CheckpointManifest, Storage], S],
    *,
    full: bool,
) -> Start[S]:
    """Find the starting state of a run; ``read`` reads the section of its kind."""
    checkpoint = find_checkpoint(runs, storage)
    known = checkpoint if isinstance(checkpoint, str) else checkpoint.manifest.known
    choice = choose(kind, known, full=full, store=store_name(store), barriers=find_barriers(runs))
    if isinstance(checkpoint, str) or not choice.index:
        return Start(choice.why)
    if choice.mode is Mode.FULL:
        return Start(choice.why, checkpoint)
    try:
        return Start(choice.why, checkpoint, read(checkpoint.manifest, storage))
    except UNREADABLE:
        return Start(damaged(checkpoint.manifest.run))


# Locations of checkpoints


def newest_id(runs: Sequence[RunRecord]) -> str | None:
    """Id of the newest finished run with a checkpoint."""
    run = _newest(runs)
    return None if run is None else run.id


def _newest(runs: Sequence[RunRecord]) -> RunRecord | None:
    left = [run for run in runs if run.finished and run.checkpoint is not None]
    return max(left, key=lambda run: run.started_at, default=None)


def is_next(runs: Sequence[RunRecord], base: str | None, barriers: Sequence[str]) -> bool:
    """Whether the store has no newer checkpoint, undo or adoption than a plan.

    ``base`` is the run with the newest checkpoint when planning. So of two plans from the same
    checkpoint, of whatever kinds, only the first to be applied leaves a checkpoint.
    """
    return newest_id(runs) == base and find_barriers(runs) <= frozenset(barriers)


def find_checkpoint(runs: Sequence[RunRecord], storage: Storage) -> Checkpoint | str:
    """Find the newest checkpoint; otherwise return the reason why none is usable."""
    run = _newest(runs)
    if run is None:
        return NO_CHECKPOINT
    try:
        saved = run.checkpoint
        assert saved is not None
        address = saved.address
        data = storage.get(address)
        if hashlib.sha256(data).hexdigest() != saved.sha256:
            return f"the checkpoint of run {run.id} was changed after it was written"
        # The rest of another version is unknown.
        body: Any = json.loads(data)
        if body["format"] != FORMAT:
            return (
                f"the checkpoint of run {run.id} has format {body['format']}, and this Reclaim "
                f"uses format {FORMAT}"
            )
        return Checkpoint(CheckpointManifest.model_validate_json(data), address, len(data))
    except UNREADABLE:
        return damaged(run.id)


def hold_checkpoint(seen: Observation, request: RootRequest) -> Observation:
    """Add the files of the newest checkpoint to the held addresses of an observation.

    An unreadable checkpoint is useless and holds nothing.
    """
    store = request.store
    if store.deleted or not isinstance(store.format, IndexesEntries):
        return seen
    checkpoint = find_checkpoint(store.runs(), request.storage)
    if isinstance(checkpoint, str):
        return seen
    return holding(seen, [request.write("checkpoint", checkpoint.addresses())])


def damaged(run_id: str) -> str:
    """Sentence about an unreadable checkpoint."""
    return f"the checkpoint of run {run_id} is damaged, or not there any more"


def write_manifest(storage: Storage, place: Place, manifest: CheckpointManifest) -> SavedManifest:
    """Write a manifest; return its entry for the run record."""
    data = json.dumps(manifest.model_dump(mode="json"), indent=2).encode()
    address = place.at(MANIFEST)
    storage.put(address, data)
    storage.flush([address])
    return SavedManifest(address, hashlib.sha256(data).hexdigest())


def checkpoint_place(store: Store, run_id: str) -> Place:
    """Folder of the checkpoint of a run."""
    return Place(store.storage.url, f"{store.format.prefix}{FOLDER}/{run_id}/")


def store_name(store: Store) -> str:
    """Identity of a checkpoint's store; a copy in another storage differs."""
    return f"{store.storage.url} {store.uid}"


def find_barriers(runs: Sequence[RunRecord]) -> frozenset[str]:
    """Events that invalidate older checkpoints, because deleted objects may exist again."""
    return frozenset(_barriers(runs))


def find_passed_barriers(runs: Sequence[RunRecord]) -> frozenset[str]:
    """Barriers before a plan made now, except those of unfinished undos.

    An unfinished undo may still restore objects. So a plan made meanwhile leaves no usable
    checkpoint until the undo is finished or the run is purged.
    """
    return find_barriers([run for run in runs if not run.undoing])


def _barriers(runs: Sequence[RunRecord]) -> Iterator[str]:
    for run in runs:
        if run.kind == ADOPT:
            yield f"adoption {run.id}"
        if run.phase is Phase.UNDONE:
            yield f"undo {run.id}"
        if run.phase is Phase.UNREADABLE:
            yield f"damage {run.id}"
        elif run.promised is not None:
            yield from (f"undo {run.id} {number}" for number in range(len(run.promised.undos)))


def count_taken(runs: Sequence[RunRecord], section: _Section) -> int:
    """Number of objects deleted by runs since a section was made, which still counts them."""
    since = (
        run
        for run in runs
        if run.id != section.run
        and run.kind == COLLECT
        and (run.finished_at is None or run.finished_at >= section.made_at)
    )
    return sum(max(run.counts.objects, run.intended if run.unfinished else 0) for run in since)
