"""The checkpoint section of lifecycle runs, at the dates of their plans; see
``run.record.checkpoints``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reclaim.engine.tasks.index import CountedReads
from reclaim.engine.tasks.lifecycle import ReachNames
from reclaim.engine.tasks.parts import Part, read_part
from reclaim.model import SnapshotId
from reclaim.policy.lifecycle.classes import BranchClasses
from reclaim.run.record.checkpoints import CheckpointManifest, LifecycleSection
from reclaim.storage import Storage


@dataclass(frozen=True, slots=True)
class LifecycleCheckpoint:
    """Section of a checkpoint as read, with the bitmaps of its commits."""

    section: LifecycleSection
    commits: Mapping[SnapshotId, int]
    bytes: int
    """Bytes read for the section."""

    @property
    def classes(self) -> BranchClasses:
        return BranchClasses.of(rule.dated for rule in self.section.rules)

    @property
    def names(self) -> ReachNames:
        return ReachNames(self.section.holders, self.section.branches)

    @property
    def ranges(self) -> Sequence[Part]:
        return [file.part for file in self.section.ranges]

    @property
    def carried(self) -> Sequence[Part]:
        return [file.part for file in self.section.carried]


def read_lifecycle(manifest: CheckpointManifest, storage: Storage) -> LifecycleCheckpoint:
    """Read the section left by the last run of lifecycle rules."""
    section = manifest.lifecycle
    assert section is not None
    reads = CountedReads(storage)
    rows = read_part(reads, section.commits.part)
    columns = (rows.column(name).to_pylist() for name in ("id", "bits"))
    return LifecycleCheckpoint(section, dict(zip(*columns, strict=True)), reads.size)
