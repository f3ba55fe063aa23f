"""The checkpoint section of runs on uncommitted data; see ``run.record.checkpoints``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from reclaim.engine.tasks.index import CountedReads
from reclaim.engine.tasks.parts import Part, read_part
from reclaim.run.record.checkpoints import CheckpointManifest, UncommittedSection
from reclaim.storage import Storage

PARTITIONS = pa.schema(
    [
        pa.field("partition", pa.string(), nullable=False),
        pa.field("objects", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        # Whether the partition is closed, so that it is not listed again.
        pa.field("final", pa.bool_(), nullable=False),
    ]
)
LIVE_SNAPSHOTS = pa.schema([pa.field("id", pa.string(), nullable=False)])


@dataclass(frozen=True, slots=True)
class UncommittedCheckpoint:
    """Section of a checkpoint as read."""

    section: UncommittedSection
    final: frozenset[str]
    live: frozenset[str]
    """Ids of the live snapshots."""
    counts: Mapping[str, int]
    sizes: Mapping[str, int]
    """Objects and bytes by partition."""
    bytes: int
    """Bytes read for the section."""

    @property
    def containers(self) -> Sequence[Part]:
        return [file.part for file in self.section.containers]

    @property
    def carried(self) -> Sequence[Part]:
        return [file.part for file in self.section.carried]


def read_uncommitted(manifest: CheckpointManifest, storage: Storage) -> UncommittedCheckpoint:
    """Read the section left by the last run on uncommitted data."""
    section = manifest.uncommitted
    assert section is not None
    reads = CountedReads(storage)
    partitions = read_part(reads, section.partitions.part)
    snapshots = read_part(reads, section.snapshots.part)
    names = partitions.column("partition").to_pylist()
    final = partitions.filter(partitions.column("final")).column("partition")
    return UncommittedCheckpoint(
        section,
        frozenset(final.to_pylist()),
        frozenset(snapshots.column("id").to_pylist()),
        dict(zip(names, partitions.column("objects").to_pylist(), strict=True)),
        dict(zip(names, partitions.column("bytes").to_pylist(), strict=True)),
        reads.size,
    )
