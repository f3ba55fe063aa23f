"""Saving a checkpoint, after a run on uncommitted data has come to its end.

A plan that was not applied, a run that failed, and one that others came before leave none: then the
next run starts from the older one, which still counts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine import pipelines
from reclaim.engine.base import Engine
from reclaim.engine.tasks.looking_up import GuardCounts
from reclaim.engine.tasks.parts import Opener, Part, Place, read_part, write_part
from reclaim.engine.uncommitted import CarryRequest, CopyRequest
from reclaim.run.plan.plan_document import File, IndexFile, PlanDocument
from reclaim.run.record.checkpoints import store_name, write_manifest
from reclaim.run.uncommitted.checkpoint import (
    LIVE_SNAPSHOTS,
    PARTITIONS,
    UNCOMMITTED_CHECKPOINTS,
    UncommittedManifest,
)
from reclaim.run_record import SavedManifest
from reclaim.stores.base import Store

FOLDER, INDEX = "_reclaim/uncommitted", "_reclaim/index"


def save_checkpoint(
    store: Store,
    engine: Engine,
    planned: PlanDocument,
    place: Place,
    *,
    live: Collection[str],
    journal: Sequence[Part],
    opener: Opener,
) -> SavedManifest | None:
    """Write the checkpoint of a run; the fact for its record, or None if it leaves none.

    ``place`` is where the plan is; ``journal`` has what became of its objects.
    """
    notes = planned.uncommitted
    if notes is None or notes.partitions is None:
        return None
    if not UNCOMMITTED_CHECKPOINTS.is_next(store.runs(), notes.base, notes.barriers):
        return None
    own = Place(store.storage.url, f"{store.format.prefix}{FOLDER}/{planned.run}/")
    index = Place(store.storage.url, f"{store.format.prefix}{INDEX}/{planned.run}/")
    storage = opener(own.url)
    copied = pipelines.copy(
        engine, CopyRequest([file.part for file in notes.index], place.url, index)
    ).parts
    containers = pipelines.copy(
        engine,
        CopyRequest(
            [file.part for file in planned.containers],
            place.url,
            own.below("containers"),
            live=True,
        ),
    ).parts
    planned_partitions = read_part(opener(place.url), notes.partitions.part)
    final = planned_partitions.filter(planned_partitions.column("final")).column("partition")
    carried = engine.carry(
        CarryRequest(
            store.format,
            [file.part for file in notes.carried],
            journal,
            frozenset(final.to_pylist()),
            place,
            own.below("carried"),
        )
    )
    partitions = write_part(
        storage,
        own.at("partitions.parquet"),
        _without_taken(planned_partitions, carried.taken),
    )
    ids = pa.table({"id": pa.array(sorted(live), pa.string())}, schema=LIVE_SNAPSHOTS)
    snapshots = write_part(storage, own.at("snapshots.parquet"), ids)
    parts = (*copied, *containers, *carried.parts, partitions, snapshots)
    storage.flush(part.address for part in parts)
    manifest = UncommittedManifest(
        run=planned.run,
        store=store_name(store),
        made_at=planned.read_at,
        generation=notes.generation,
        barriers=notes.barriers,
        counts=notes.counts,
        partitions=File.of(partitions),
        snapshots=File.of(snapshots),
        containers=[File.of(part) for part in containers],
        carried=[File.of(part) for part in carried.parts],
        index=[*notes.known_index, *(IndexFile.of(part) for part in copied)],
    )
    return write_manifest(storage, own, manifest)


def _without_taken(partitions: pa.Table, taken: GuardCounts) -> pa.Table:
    """Objects and bytes by partition, without those that the run took."""
    names = pa.array(list(taken), pa.string())
    at = pc.index_in(partitions.column("partition"), names)
    columns = []
    for number, name in enumerate(("objects", "bytes")):
        gone = pa.array([counts[number] for counts in taken.values()], pa.int64()).take(
            at.combine_chunks()
        )
        left = pc.subtract(partitions.column(name), pc.fill_null(gone, 0))
        columns.append(pc.max_element_wise(left, 0))
    return pa.table(
        [partitions.column("partition"), *columns, partitions.column("final")], schema=PARTITIONS
    )
