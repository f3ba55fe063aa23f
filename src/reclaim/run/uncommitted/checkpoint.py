"""Checkpoints of runs on uncommitted data; see ``run.checkpoints``.

Its files are Parquet, below ``_reclaim/uncommitted/`` and ``_reclaim/index/``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from reclaim.engine.tasks.indexing import CountedReads
from reclaim.engine.tasks.parts import Part, read_part
from reclaim.run.plan.plan_document import ContainerCounts, File
from reclaim.run.record.checkpoints import (
    UNREADABLE,
    Checkpoint,
    CheckpointKind,
    CheckpointManifest,
    FoundManifest,
    damaged,
)
from reclaim.run.uncommitted.scope import FORMAT, Known
from reclaim.storage import Storage
from reclaim.stores.base import Store

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


class UncommittedManifest(CheckpointManifest):
    """The files of such a checkpoint."""

    format: int = FORMAT
    counts: ContainerCounts
    partitions: File
    snapshots: File
    containers: list[File]

    def files(self) -> Sequence[File]:
        return (self.partitions, self.snapshots, *self.containers, *self.carried, *self.index)


UNCOMMITTED_CHECKPOINTS = CheckpointKind(
    "checkpoint", lambda run: run.checkpoint, FORMAT, UncommittedManifest
)


@dataclass(frozen=True, slots=True)
class UncommittedCheckpoint(Checkpoint[UncommittedManifest]):
    """A checkpoint that was read; ``known`` is what decisions need of it."""

    known: Known
    counts: Mapping[str, int]
    sizes: Mapping[str, int]
    """Objects and bytes by partition."""
    bytes: int
    """How much was read to know this."""

    @property
    def containers(self) -> Sequence[Part]:
        return [file.part for file in self.manifest.containers]


def find_checkpoint(store: Store, storage: Storage) -> UncommittedCheckpoint | str:
    """The newest checkpoint of a store, or why there is none that can be used."""
    found = UNCOMMITTED_CHECKPOINTS.find(() if store.deleted else store.runs(), storage)
    if isinstance(found, str):
        return found
    try:
        return _read(found, storage)
    except UNREADABLE:
        return damaged(found.manifest.run)


def _read(found: FoundManifest[UncommittedManifest], storage: Storage) -> UncommittedCheckpoint:
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
    return UncommittedCheckpoint(
        found,
        known,
        dict(zip(names, partitions.column("objects").to_pylist(), strict=True)),
        dict(zip(names, partitions.column("bytes").to_pylist(), strict=True)),
        found.size + reads.size,
    )
