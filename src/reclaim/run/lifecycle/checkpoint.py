"""Checkpoints of lifecycle runs, at the dates of their plans; see ``run.checkpoints``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from reclaim.engine.tasks.lifecycle import ReachNames
from reclaim.engine.tasks.parts import Part, read_part
from reclaim.model import SnapshotId
from reclaim.policy.lifecycle.classes import BranchClasses
from reclaim.run.plan.plan_document import File, LifecycleRuleDate
from reclaim.run.record.checkpoints import (
    UNREADABLE,
    Checkpoint,
    CheckpointKind,
    CheckpointManifest,
    damaged,
    find_barriers,
    store_name,
)
from reclaim.run_record import RunRecord
from reclaim.storage import Storage
from reclaim.stores.base import Store

FORMAT = 1
MOST_GENERATIONS = 100
"""After so many incremental runs the index is made anew."""


class LifecycleManifest(CheckpointManifest):
    """The files of such a checkpoint. What is carried are addresses that a rule matched and that
    stayed."""

    format: int = FORMAT
    today: date
    rules: list[LifecycleRuleDate]
    objects: int
    """Data objects that were known of the store."""
    holders: list[str]
    branches: list[str]
    """The names behind the numbers in the ranges."""
    commits: File
    ranges: list[File]

    def files(self) -> Sequence[File]:
        return (self.commits, *self.ranges, *self.carried, *self.index)


LIFECYCLE_CHECKPOINTS = CheckpointKind(
    "lifecycle_checkpoint",
    lambda run: run.lifecycle.checkpoint if run.lifecycle else None,
    FORMAT,
    LifecycleManifest,
)


@dataclass(frozen=True, slots=True)
class LifecycleCheckpoint(Checkpoint[LifecycleManifest]):
    """A checkpoint that was read, with the bitmaps of its commits."""

    commits: Mapping[SnapshotId, int]
    bytes: int
    """How much was read to know this, and is read of its ranges."""

    @property
    def classes(self) -> BranchClasses:
        return BranchClasses.of(rule.dated for rule in self.manifest.rules)

    @property
    def names(self) -> ReachNames:
        return ReachNames(self.manifest.holders, self.manifest.branches)

    @property
    def ranges(self) -> Sequence[Part]:
        return [file.part for file in self.manifest.ranges]


def find_lifecycle_checkpoint(
    store: Store, storage: Storage, runs: Sequence[RunRecord]
) -> LifecycleCheckpoint | str:
    """The newest checkpoint of a store, or why there is none that can be used."""
    found = LIFECYCLE_CHECKPOINTS.find(runs, storage)
    if isinstance(found, str):
        return found
    manifest, size = found.manifest, found.size
    if manifest.store != store_name(store):
        return f"the checkpoint of run {manifest.run} is of another storage"
    if find_barriers(runs) - frozenset(manifest.barriers):
        return (
            f"the checkpoint of run {manifest.run} does not count: since then partitions were "
            "adopted, or a run was undone, or its undo is not finished"
        )
    if manifest.generation >= MOST_GENERATIONS:
        return (
            f"{manifest.generation} incremental runs came since the last full one, and the index "
            "is made anew"
        )
    try:
        rows = read_part(storage, manifest.commits.part)
        size += sum(
            storage.head(file.address).size for file in (manifest.commits, *manifest.ranges)
        )
    except UNREADABLE:
        return damaged(manifest.run)
    columns = (rows.column(name).to_pylist() for name in ("id", "bits"))
    return LifecycleCheckpoint(found, dict(zip(*columns, strict=True)), size)
