"""Checkpoints: what a finished run leaves for the next one, and how that finds it.

The record of the run, in the store, has the hash of a manifest, and the manifest has those of all
files: who can only write files cannot make a checkpoint. It is as of the plan's read of the roots.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from reclaim.engine.tasks.parts import Part, Place
from reclaim.errors import Corrupt, NotFound, PlanRefused
from reclaim.run.plan.plan_document import File, IndexFile
from reclaim.run.roots.request import RootRequest, holding
from reclaim.run_record import ADOPT, Phase, RunRecord, SavedManifest
from reclaim.storage import Storage
from reclaim.stores.base import Store
from reclaim.stores.format import IndexesEntries
from reclaim.stores.observation import Observation

MANIFEST = "checkpoint.json"
NONE = "there is no checkpoint yet"
UNREADABLE = (NotFound, Corrupt, PlanRefused, ValidationError, ValueError, KeyError, TypeError)


class CheckpointManifest(BaseModel, ABC):
    """The files of a checkpoint, and what tells whether it counts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int
    run: str
    store: str
    made_at: AwareDatetime
    """When the roots were read that it is of."""
    generation: int
    barriers: list[str]
    carried: list[File]
    index: list[IndexFile]

    @abstractmethod
    def files(self) -> Sequence[File]:
        """Every file of the checkpoint but the manifest itself."""


M = TypeVar("M", bound=CheckpointManifest)


@dataclass(frozen=True, slots=True)
class FoundManifest(Generic[M]):
    """A manifest as the record of its run vouches for it."""

    manifest: M
    place: str
    """Its address."""
    size: int

    def addresses(self) -> list[str]:
        """Every file of the checkpoint."""
        return [self.place, *(file.address for file in self.manifest.files())]


@dataclass(frozen=True, slots=True)
class Checkpoint(Generic[M]):
    """A checkpoint that was read."""

    found: FoundManifest[M]

    @property
    def manifest(self) -> M:
        return self.found.manifest

    @property
    def index(self) -> Sequence[Part]:
        return [file.part for file in self.manifest.index]

    @property
    def carried(self) -> Sequence[Part]:
        return [file.part for file in self.manifest.carried]

    def addresses(self) -> list[str]:
        """Every file of it."""
        return self.found.addresses()


@dataclass(frozen=True, slots=True)
class CheckpointKind(Generic[M]):
    """The checkpoints of one kind of run."""

    name: str
    noted: Callable[[RunRecord], SavedManifest | None]
    """The part of the record of a run that names its checkpoint."""
    format: int
    """The version that is read and written."""
    manifest: type[M]

    def newest(self, runs: Sequence[RunRecord]) -> RunRecord | None:
        """The newest run that ended well and left a checkpoint."""
        left = [run for run in runs if run.finished and self.noted(run) is not None]
        return max(left, key=lambda run: run.started_at, default=None)

    def newest_id(self, runs: Sequence[RunRecord]) -> str | None:
        run = self.newest(runs)
        return None if run is None else run.id

    def is_next(self, runs: Sequence[RunRecord], base: str | None, barriers: Sequence[str]) -> bool:
        """Whether nothing came since a plan: no other checkpoint, and no undo or adoption.

        ``base`` is the run whose checkpoint was the newest then.
        """
        return self.newest_id(runs) == base and find_barriers(runs) <= frozenset(barriers)

    def find(self, runs: Sequence[RunRecord], storage: Storage) -> FoundManifest[M] | str:
        """The manifest of the newest checkpoint, or why there is none that can be used."""
        run = self.newest(runs)
        if run is None:
            return NONE
        try:
            noted = self.noted(run)
            assert noted is not None
            address = noted.address
            data = storage.get(address)
            if hashlib.sha256(data).hexdigest() != noted.sha256:
                return f"the checkpoint of run {run.id} was changed after it was written"
            # Nothing else is known of another version.
            body: Any = json.loads(data)
            if body["format"] != self.format:
                return (
                    f"the checkpoint of run {run.id} has format {body['format']}, and this Reclaim "
                    f"uses format {self.format}"
                )
            return FoundManifest(self.manifest.model_validate_json(data), address, len(data))
        except UNREADABLE:
            return damaged(run.id)

    def hold(self, seen: Observation, request: RootRequest) -> Observation:
        """An observation that also holds the files of the newest checkpoint.

        A checkpoint that cannot be read is of no use to anybody, and holds nothing.
        """
        store = request.store
        if store.deleted or not isinstance(store.format, IndexesEntries):
            return seen
        found = self.find(store.runs(), request.storage)
        if isinstance(found, str):
            return seen
        return holding(seen, [request.write(self.name, found.addresses())])


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
