"""Checkpoints of lifecycle runs: what one that finished leaves for the next.

As with those on uncommitted data, the record of the run in the store vouches for a manifest, and
the manifest for every file. It is as of the plan's read of the roots, and at the plan's dates.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import pyarrow as pa
from pydantic import AwareDatetime, BaseModel, ConfigDict

from reclaim.engine.tasks.lifecycle import ReachNames
from reclaim.engine.tasks.parts import Part, Place, read_part, write_hashed
from reclaim.model import LIFECYCLE_CHECKPOINT, Run, RunState, SnapshotId
from reclaim.policy.lifecycle.classes import BranchClasses
from reclaim.run.plan_file import File, IndexFile, LifecycleRuleDate
from reclaim.run.uncommitted.checkpoint import NONE, UNREADABLE, find_barriers, store_name
from reclaim.storage import Storage
from reclaim.stores.base import Store
from reclaim.stores.format import IndexesEntries
from reclaim.stores.observation import Observation

FORMAT = 1
MANIFEST = "checkpoint.json"
MOST_GENERATIONS = 100
"""After so many incremental runs the index is made anew."""


class LifecycleManifest(BaseModel):
    """The files of a checkpoint, and what tells whether it counts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    run: str
    store: str
    made_at: AwareDatetime
    """When the roots were read that it is of."""
    today: date
    rules: list[LifecycleRuleDate]
    generation: int
    barriers: list[str]
    objects: int
    """Data objects that were known of the store."""
    holders: list[str]
    branches: list[str]
    """The names behind the numbers in the ranges."""
    commits: File
    ranges: list[File]
    carried: list[File]
    """Addresses that a rule matched and that stayed."""
    index: list[IndexFile]


@dataclass(frozen=True, slots=True)
class LifecycleCheckpoint:
    """A checkpoint that was read."""

    manifest: LifecycleManifest
    place: str
    """The address of its manifest."""
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
    def index(self) -> Sequence[Part]:
        return [file.part for file in self.manifest.index]

    @property
    def carried(self) -> Sequence[Part]:
        return [file.part for file in self.manifest.carried]

    @property
    def ranges(self) -> Sequence[Part]:
        return [file.part for file in self.manifest.ranges]

    def addresses(self) -> list[str]:
        """Every file of it."""
        return _addresses(self.manifest, self.place)


def _addresses(manifest: LifecycleManifest, place: str) -> list[str]:
    files = (manifest.commits, *manifest.ranges, *manifest.carried, *manifest.index)
    return [place, *(file.address for file in files)]


def newest_lifecycle(runs: Sequence[Run]) -> Run | None:
    """The newest run of lifecycle rules that ended well and left a checkpoint."""
    ended = (RunState.DONE, RunState.PURGED)
    left = [run for run in runs if run.state in ended and run.summary.get(LIFECYCLE_CHECKPOINT)]
    return max(left, key=lambda run: run.started_at, default=None)


def find_lifecycle_checkpoint(
    store: Store, storage: Storage, runs: Sequence[Run]
) -> LifecycleCheckpoint | str:
    """The newest checkpoint of a store, or why there is none that can be used."""
    found = _find_manifest(storage, runs)
    if isinstance(found, str):
        return found
    manifest, place, size = found
    if manifest.store != store_name(store):
        return f"the checkpoint of run {manifest.run} is of another storage"
    if find_barriers(runs) - frozenset(manifest.barriers):
        return (
            f"the checkpoint of run {manifest.run} does not count: a run was undone or partitions "
            "were adopted since"
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
        return _damaged(manifest.run)
    columns = (rows.column(name).to_pylist() for name in ("id", "bits"))
    return LifecycleCheckpoint(manifest, place, dict(zip(*columns, strict=True)), size)


def _damaged(run: str) -> str:
    return f"the checkpoint of run {run} is damaged, or not there any more"


def _find_manifest(
    storage: Storage, runs: Sequence[Run]
) -> tuple[LifecycleManifest, str, int] | str:
    run = newest_lifecycle(runs)
    if run is None:
        return NONE
    try:
        noted = run.summary[LIFECYCLE_CHECKPOINT]
        address = str(noted["address"])
        data = storage.get(address)
        if hashlib.sha256(data).hexdigest() != noted["sha256"]:
            return f"the checkpoint of run {run.id} was changed after it was written"
        body: Any = json.loads(data)
        if body.get("format") != FORMAT:
            return (
                f"the checkpoint of run {run.id} has format {body.get('format')}, and this Reclaim "
                f"uses format {FORMAT}"
            )
        return LifecycleManifest.model_validate_json(data), address, len(data)
    except UNREADABLE:
        return _damaged(run.id)


def write_lifecycle_manifest(
    storage: Storage, place: Place, manifest: LifecycleManifest
) -> dict[str, str]:
    """Write a manifest; returns the fact for the record of its run."""
    data = json.dumps(manifest.model_dump(mode="json"), indent=2).encode()
    address = place.at(MANIFEST)
    storage.put(address, data)
    storage.flush([address])
    return {"address": address, "sha256": hashlib.sha256(data).hexdigest()}


def hold_lifecycle_checkpoint(
    seen: Observation, store: Store, storage: Storage, place: Place, own: Storage
) -> Observation:
    """An observation in which the files of the newest checkpoint are needed as well; see
    ``run.uncommitted.checkpoint.hold_checkpoint``."""
    if store.deleted or not isinstance(store.format, IndexesEntries):
        return seen
    found = _find_manifest(storage, store.runs())
    if isinstance(found, str):
        return seen
    manifest, address, _ = found
    rows = pa.table({"address": pa.array(_addresses(manifest, address), pa.string())})
    part = write_hashed(own, place.at("lifecycle"), rows)
    return replace(seen, held=(*seen.held, part.address), held_count=seen.held_count + part.rows)
