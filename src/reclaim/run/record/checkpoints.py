"""Checkpoints: what a finished run leaves for the next one, and how that finds it.

There is one checkpoint for all kinds of runs: the index of what ranges list, which they share, and
a section for each kind, as of the last run of that kind. A run writes its own section and leaves
the other as it was. The record of the run, in the store, has the hash of a manifest, and the
manifest has those of all files: who can only write files cannot make a checkpoint.
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
"""The version of checkpoints and of the index that is read and written."""
FOLDER = "_reclaim/checkpoints"
MANIFEST = "checkpoint.json"
MOST_GENERATIONS = 100
"""After so many runs that added to it, the index is made anew: it only ever grows."""
NONE = "there is no checkpoint yet"
UNREADABLE = (NotFound, Corrupt, PlanRefused, ValidationError, ValueError, KeyError, TypeError)


class Kind(StrEnum):
    """The kinds of runs that leave checkpoints, as sentences name them."""

    UNCOMMITTED = "uncommitted data"
    LIFECYCLE = "lifecycle rules"


class Mode(StrEnum):
    """How much a run looks at: everything, or what may have changed since an earlier run."""

    FULL = "full"
    INCREMENTAL = "incremental"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Section(_Model):
    """What a run leaves for the next one of its kind, as of its read of the roots."""

    run: str
    made_at: AwareDatetime
    """When its plan was begun. Objects that other runs took since, it may still count."""
    generation: int
    """The generation of the index that the run has seen."""
    carried: list[File]
    """Addresses that the next run looks at again."""


class UncommittedSection(_Section):
    """The state of a store at a run on uncommitted data."""

    counts: ContainerCounts
    taken: int
    """Objects that runs of lifecycle rules took of partitions which still count them."""
    partitions: File
    snapshots: File
    """The ids of the live snapshots."""
    containers: list[File]
    """The live ones."""

    def files(self) -> Sequence[File]:
        return (self.partitions, self.snapshots, *self.containers, *self.carried)


class LifecycleSection(_Section):
    """The state of a store at a run of lifecycle rules. What is carried are addresses that a rule
    matched and that stayed."""

    today: date
    rules: list[LifecycleRuleDate]
    objects: int
    """Data objects that were known of the store."""
    holders: list[str]
    branches: list[str]
    """The names behind the numbers in the ranges."""
    commits: File
    ranges: list[File]
    """Those that something reached."""

    def files(self) -> Sequence[File]:
        return (self.commits, *self.ranges, *self.carried)


class IndexStep(_Model):
    """The part of the index that one run has added: the ranges that it read, and their entries."""

    generation: int
    parts: list[IndexFile]
    ranges: list[File]


class CheckpointManifest(_Model):
    """The files of a checkpoint, and what tells whether it counts."""

    format: int = FORMAT
    run: str
    store: str
    generation: int
    """How many runs have added to the index since it was begun."""
    barriers: list[str]
    """Events after which no checkpoint of before counts, and that it comes after."""
    index: list[IndexStep]
    uncommitted: UncommittedSection | None = None
    lifecycle: LifecycleSection | None = None

    def files(self) -> Sequence[File]:
        """Every file of the checkpoint but the manifest itself."""
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
        """The parts of the index that the run of a section has seen."""
        return [
            file.part
            for step in self.index
            for file in step.parts
            if step.generation <= section.generation
        ]

    def parts_since(self, section: _Section | None) -> Sequence[Part]:
        """The parts of the index that runs of other kinds have added since; all without one."""
        return [file.part for step in self._steps_since(section) for file in step.parts]

    def ranges_since(self, section: _Section | None) -> Sequence[Part]:
        """The ranges that these have the entries of."""
        return [file.part for step in self._steps_since(section) for file in step.ranges]

    def _steps_since(self, section: _Section | None) -> Sequence[IndexStep]:
        if section is None:
            return self.index
        return [step for step in self.index if step.generation > section.generation]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint as the record of its run vouches for it."""

    manifest: CheckpointManifest
    place: str
    """The address of the manifest."""
    size: int

    def addresses(self) -> list[str]:
        """Every file of the checkpoint."""
        return [self.place, *(file.address for file in self.manifest.files())]


# Whether a checkpoint counts


@dataclass(frozen=True, slots=True)
class Known:
    """The part of a checkpoint that tells whether it can be used."""

    run: str
    store: str
    """The storage and the uid of the store that it is of."""
    barriers: frozenset[str]
    generation: int
    kinds: frozenset[Kind]
    """The kinds of runs that it has a section of."""


@dataclass(frozen=True, slots=True)
class Choice:
    """How much a run looks at, and why; and whether the index of the checkpoint counts."""

    mode: Mode
    why: str
    index: bool = False


def choose(
    kind: Kind, known: Known | str, *, full: bool, store: str, barriers: AbstractSet[str]
) -> Choice:
    """The run to make. ``known`` is a checkpoint, or why there is none that can be used."""
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
    if known.generation >= MOST_GENERATIONS:
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
    """The state that a run starts from: a section, the index alone, or nothing."""

    why: str
    checkpoint: Checkpoint | None = None
    """The checkpoint whose index counts."""
    section: S | None = None
    """What an earlier run of this kind left, if that counts."""

    @property
    def mode(self) -> Mode:
        return Mode.FULL if self.section is None else Mode.INCREMENTAL

    @property
    def generation(self) -> int:
        """The generation of the index that the run leaves."""
        return 0 if self.checkpoint is None else self.checkpoint.manifest.generation + 1

    @property
    def size(self) -> int:
        """The bytes of the manifest that it was found in."""
        return self.checkpoint.size if self.checkpoint else 0

    def restarted(self, why: str, *, damaged: bool) -> Start[S]:
        """A full run instead. Unless files are damaged, the index still counts."""
        return Start(why, None if damaged else self.checkpoint)

    def files(self) -> Collection[str]:
        """The addresses of what it was found in."""
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
    """The state that a run of some kind starts from; ``read`` reads the section of the kind."""
    found = find_checkpoint(runs, storage)
    known = found if isinstance(found, str) else found.manifest.known
    choice = choose(kind, known, full=full, store=store_name(store), barriers=find_barriers(runs))
    if isinstance(found, str) or not choice.index:
        return Start(choice.why)
    if choice.mode is Mode.FULL:
        return Start(choice.why, found)
    try:
        return Start(choice.why, found, read(found.manifest, storage))
    except UNREADABLE:
        return Start(damaged(found.manifest.run))


# Where a checkpoint is


def newest_id(runs: Sequence[RunRecord]) -> str | None:
    """The newest run that ended well and left a checkpoint."""
    run = _newest(runs)
    return None if run is None else run.id


def _newest(runs: Sequence[RunRecord]) -> RunRecord | None:
    left = [run for run in runs if run.finished and run.checkpoint is not None]
    return max(left, key=lambda run: run.started_at, default=None)


def is_next(runs: Sequence[RunRecord], base: str | None, barriers: Sequence[str]) -> bool:
    """Whether nothing came since a plan: no other checkpoint, and no undo or adoption.

    ``base`` is the run whose checkpoint was the newest then. So of two plans that started from the
    same one, of whatever kinds, the first that is applied leaves a checkpoint, and the other none.
    """
    return newest_id(runs) == base and find_barriers(runs) <= frozenset(barriers)


def find_checkpoint(runs: Sequence[RunRecord], storage: Storage) -> Checkpoint | str:
    """The newest checkpoint, or why there is none that can be used."""
    run = _newest(runs)
    if run is None:
        return NONE
    try:
        noted = run.checkpoint
        assert noted is not None
        address = noted.address
        data = storage.get(address)
        if hashlib.sha256(data).hexdigest() != noted.sha256:
            return f"the checkpoint of run {run.id} was changed after it was written"
        # Nothing else is known of another version.
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
    """An observation that also holds the files of the newest checkpoint.

    A checkpoint that cannot be read is of no use to anybody, and holds nothing.
    """
    store = request.store
    if store.deleted or not isinstance(store.format, IndexesEntries):
        return seen
    found = find_checkpoint(store.runs(), request.storage)
    if isinstance(found, str):
        return seen
    return holding(seen, [request.write("checkpoint", found.addresses())])


def damaged(run_id: str) -> str:
    """The sentence about a checkpoint that cannot be read."""
    return f"the checkpoint of run {run_id} is damaged, or not there any more"


def write_manifest(storage: Storage, place: Place, manifest: CheckpointManifest) -> SavedManifest:
    """Write a manifest; returns the part for the record of its run."""
    data = json.dumps(manifest.model_dump(mode="json"), indent=2).encode()
    address = place.at(MANIFEST)
    storage.put(address, data)
    storage.flush([address])
    return SavedManifest(address, hashlib.sha256(data).hexdigest())


def checkpoint_place(store: Store, run_id: str) -> Place:
    """The folder of the checkpoint of a run."""
    return Place(store.storage.url, f"{store.format.prefix}{FOLDER}/{run_id}/")


def store_name(store: Store) -> str:
    """The store that a checkpoint is of: a copy elsewhere is another one."""
    return f"{store.storage.url} {store.uid}"


def find_barriers(runs: Sequence[RunRecord]) -> frozenset[str]:
    """Events after which no checkpoint of before counts: what was gone may be there again."""
    return frozenset(_barriers(runs))


def find_passed_barriers(runs: Sequence[RunRecord]) -> frozenset[str]:
    """Barriers that a plan made now comes after; those of an undo that is not finished are none.

    Such an undo may still bring objects back. So a plan made meanwhile leaves no checkpoint that
    counts, until the undo is finished or the run is purged.
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
    """How many objects runs have taken since a section was made, which still counts them."""
    since = (
        run
        for run in runs
        if run.id != section.run
        and run.kind == COLLECT
        and (run.finished_at is None or run.finished_at >= section.made_at)
    )
    return sum(max(run.counts.objects, run.intended if run.unfinished else 0) for run in since)
