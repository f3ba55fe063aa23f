"""Checkpoints: what a finished run on uncommitted data leaves for the next one.

Its files are Parquet, below ``_reclaim/uncommitted/`` and ``_reclaim/index/``. A manifest beside
them has their hashes, and the record of the run, in the store, has the manifest's: who can only
write files cannot make one. It is as of the plan's read of the roots.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from reclaim.engine.tasks.indexing import CountedReads
from reclaim.engine.tasks.parts import Part, Place, read_part, write_hashed
from reclaim.errors import Corrupt, NotFound, PlanRefused
from reclaim.model import ADOPT, CHECKPOINT, Quarantine, Run, RunState
from reclaim.run.plan_file import ContainerCounts, File, IndexFile
from reclaim.run.uncommitted.scope import FORMAT, Known, Mode, choose, unread
from reclaim.storage import Storage
from reclaim.stores.base import Store
from reclaim.stores.format import IndexesEntries
from reclaim.stores.observation import Observation

MANIFEST = "checkpoint.json"
NONE = "there is no checkpoint yet"

PARTITIONS = pa.schema(
    [
        pa.field("partition", pa.string(), nullable=False),
        pa.field("objects", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        # Whether nobody can write there any more, so that it is not listed again.
        pa.field("final", pa.bool_(), nullable=False),
    ]
)
LIVE_SNAPSHOTS = pa.schema([pa.field("id", pa.string(), nullable=False)])


class Manifest(BaseModel):
    """The files of a checkpoint, and what tells whether it counts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    run: str
    store: str
    made_at: AwareDatetime
    """When the roots were read that it is of."""
    generation: int
    barriers: list[str]
    counts: ContainerCounts
    partitions: File
    snapshots: File
    containers: list[File]
    carried: list[File]
    index: list[IndexFile]


@dataclass(frozen=True, slots=True)
class FoundManifest:
    """A manifest as the record of its run vouches for it."""

    manifest: Manifest
    place: str
    """Its address."""
    size: int

    def addresses(self) -> list[str]:
        """Every file of the checkpoint."""
        manifest = self.manifest
        files = (manifest.partitions, manifest.snapshots, *manifest.containers)
        others = (*manifest.carried, *manifest.index)
        return [self.place, *(file.address for file in (*files, *others))]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that was read; ``known`` is what decisions need of it."""

    known: Known
    found: FoundManifest
    counts: Mapping[str, int]
    sizes: Mapping[str, int]
    """Objects and bytes by partition."""
    bytes: int
    """How much was read to know this."""

    @property
    def manifest(self) -> Manifest:
        return self.found.manifest

    @property
    def index(self) -> Sequence[Part]:
        return [file.part for file in self.manifest.index]

    @property
    def carried(self) -> Sequence[Part]:
        return [file.part for file in self.manifest.carried]

    @property
    def containers(self) -> Sequence[Part]:
        return [file.part for file in self.manifest.containers]

    def addresses(self) -> list[str]:
        """Every file of it."""
        return self.found.addresses()


def store_name(store: Store) -> str:
    """The store that a checkpoint is of: a copy elsewhere is another one."""
    return f"{store.storage.url} {store.uid}"


def find_barriers(runs: Sequence[Run]) -> frozenset[str]:
    """Events after which no checkpoint of before counts: what was gone may be there again."""
    return frozenset(_barriers(runs))


def _barriers(runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        if run.kind == ADOPT:
            yield f"adoption {run.id}"
        if run.state == RunState.UNDONE:
            yield f"undo {run.id}"
        if run.state == RunState.UNREADABLE:
            yield f"damage {run.id}"
        elif (aside := Quarantine.of_record(run.summary)) is not None:
            yield from (f"undo {run.id} {number}" for number in range(len(aside.undos)))


def newest(runs: Sequence[Run]) -> Run | None:
    """The newest run that left a checkpoint."""
    ended = (RunState.DONE, RunState.PURGED)
    left = [run for run in runs if run.state in ended and run.summary.get(CHECKPOINT)]
    return max(left, key=lambda run: run.started_at, default=None)


def find_checkpoint(store: Store, storage: Storage) -> Checkpoint | str:
    """The newest checkpoint of a store, or why there is none that can be used."""
    found = find_manifest(store, storage)
    if isinstance(found, str):
        return found
    try:
        return _read(found, storage)
    except UNREADABLE:
        return _damaged(found.manifest.run)


UNREADABLE = (NotFound, Corrupt, PlanRefused, ValidationError, ValueError, KeyError, TypeError)


def _damaged(run: str) -> str:
    return f"the checkpoint of run {run} is damaged, or not there any more"


def find_manifest(store: Store, storage: Storage) -> FoundManifest | str:
    """The manifest of the newest checkpoint, or why there is none that can be used."""
    run = None if store.deleted else newest(store.runs())
    if run is None:
        return NONE
    try:
        noted = run.summary[CHECKPOINT]
        address = str(noted["address"])
        data = storage.get(address)
        if hashlib.sha256(data).hexdigest() != noted["sha256"]:
            return f"the checkpoint of run {run.id} was changed after it was written"
        body: Any = json.loads(data)
        if body.get("format") != FORMAT:
            # Nothing else is known of another version.
            known = unread(run.id, int(body["format"]))
            return choose(Mode.AUTO, known, store="", barriers=set()).why
        return FoundManifest(Manifest.model_validate_json(data), address, len(data))
    except UNREADABLE:
        return _damaged(run.id)


def _read(found: FoundManifest, storage: Storage) -> Checkpoint:
    manifest = found.manifest
    reads = CountedReads(storage)
    partitions = read_part(reads, manifest.partitions.part)
    snapshots = read_part(reads, manifest.snapshots.part)
    names = partitions.column("partition").to_pylist()
    final = partitions.filter(partitions.column("final")).column("partition")
    known = Known(
        manifest.run,
        manifest.format,
        manifest.store,
        frozenset(manifest.barriers),
        manifest.generation,
        frozenset(final.to_pylist()),
        frozenset(snapshots.column("id").to_pylist()),
    )
    return Checkpoint(
        known,
        found,
        dict(zip(names, partitions.column("objects").to_pylist(), strict=True)),
        dict(zip(names, partitions.column("bytes").to_pylist(), strict=True)),
        found.size + reads.size,
    )


def write_manifest(storage: Storage, place: Place, manifest: Manifest) -> dict[str, str]:
    """Write a manifest; returns the fact for the record of its run."""
    data = json.dumps(manifest.model_dump(mode="json"), indent=2).encode()
    address = place.at(MANIFEST)
    storage.put(address, data)
    storage.flush([address])
    return {"address": address, "sha256": hashlib.sha256(data).hexdigest()}


def hold_checkpoint(
    seen: Observation, store: Store, storage: Storage, place: Place, own: Storage
) -> Observation:
    """An observation in which the files of the newest checkpoint are needed as well.

    ``own`` is the storage of the place, where files with addresses are read from. One that cannot
    be read is needed by nobody.
    """
    if store.deleted or not isinstance(store.format, IndexesEntries):
        return seen
    found = find_manifest(store, storage)
    if isinstance(found, str):
        return seen
    rows = pa.table({"address": pa.array(found.addresses(), pa.string())})
    part = write_hashed(own, place.at("checkpoint"), rows)
    return replace(seen, held=(*seen.held, part.address), held_count=seen.held_count + part.rows)
