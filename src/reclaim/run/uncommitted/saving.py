"""Save the checkpoint of a run on uncommitted data."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine import pipelines
from reclaim.engine.base import Engine
from reclaim.engine.incremental import CarryRequest, CopyRequest
from reclaim.engine.tasks.lookup import GuardCounts
from reclaim.engine.tasks.parts import Opener, Part, Place, read_part, write_part
from reclaim.run.plan.plan_document import File, PlanDocument
from reclaim.run.record.checkpoints import UncommittedSection
from reclaim.run.record.saving import save_checkpoint
from reclaim.run.uncommitted.checkpoint import LIVE_SNAPSHOTS, PARTITIONS
from reclaim.run_record import SavedManifest
from reclaim.storage import Storage
from reclaim.stores.base import Store


def save_uncommitted(
    store: Store,
    engine: Engine,
    planned: PlanDocument,
    place: Place,
    *,
    live: Collection[str],
    journal: Sequence[Part],
    opener: Opener,
) -> SavedManifest | None:
    """Write the checkpoint of a run. ``journal`` has the outcomes of its objects."""
    notes = planned.uncommitted
    if notes is None or notes.partitions is None:
        return None
    listed = notes.partitions.part

    def write_section(own: Place, storage: Storage) -> UncommittedSection:
        containers = pipelines.copy(
            engine,
            CopyRequest(
                [file.part for file in planned.containers],
                place.url,
                own.below("containers"),
                live=True,
            ),
        ).parts
        planned_partitions = read_part(opener(place.url), listed)
        final = planned_partitions.filter(planned_partitions.column("final")).column("partition")
        carried = pipelines.carry(
            engine,
            CarryRequest(
                store.format,
                [file.part for file in notes.carried],
                journal,
                place,
                own.below("carried"),
                final=frozenset(final.to_pylist()),
            ),
        )
        partitions = write_part(
            storage,
            own.at("partitions.parquet"),
            _without_taken(planned_partitions, carried.taken),
        )
        ids = pa.table({"id": pa.array(sorted(live), pa.string())}, schema=LIVE_SNAPSHOTS)
        snapshots = write_part(storage, own.at("snapshots.parquet"), ids)
        return UncommittedSection(
            run=planned.run,
            made_at=planned.started_at,
            generation=notes.generation,
            counts=notes.counts,
            taken=notes.taken,
            partitions=File.of(partitions),
            snapshots=File.of(snapshots),
            containers=[File.of(part) for part in containers],
            carried=[File.of(part) for part in carried.parts],
        )

    return save_checkpoint(store, engine, planned, place, write_section, opener=opener)


def _without_taken(partitions: pa.Table, taken: GuardCounts) -> pa.Table:
    """Objects and bytes by partition, without objects deleted by the run."""
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
