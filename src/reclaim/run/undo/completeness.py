"""Completeness of snapshots, checked before they are promised or restored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from reclaim.engine import pipelines
from reclaim.engine.base import Engine
from reclaim.engine.requests import IncompleteRequest
from reclaim.engine.tasks.parts import Opener, Part, Place, hashed_part, open_storage
from reclaim.engine.tasks.quarantine import QuarantineFolder
from reclaim.engine.tasks.reading import each_once, snapshot_containers
from reclaim.model import SnapshotId
from reclaim.run.plan.plan_document import OF_RUNS
from reclaim.storage import KeyRange
from reclaim.stores.abilities import TakesReferenced
from reclaim.stores.base import Store


def find_whole(
    store: Store,
    engine: Engine,
    snapshots: Mapping[SnapshotId, Mapping[str, str]],
    place: Place,
    *,
    not_back: Sequence[Part] = (),
    quarantine: QuarantineFolder | None = None,
    opener: Opener = open_storage,
) -> Sequence[SnapshotId]:
    """Return the complete snapshots, given with their containers by kind.

    Objects deleted by a lifecycle rule are not missing: readers get an explicit error. An object at
    the address of a failed restore, by the journals ``not_back``, does not count; ``quarantine``
    holds the failed objects.
    """
    named = [
        snapshot_containers([address], kind)
        for containers in snapshots.values()
        for kind, address in containers.items()
    ]
    if not named:
        return list(snapshots)
    listed = engine.list(store.format, _ranges_of_snapshots(store), place.below("there"))
    broken = pipelines.incomplete(
        engine,
        IncompleteRequest(
            store.format,
            each_once(named),
            listed,
            place.below("containers"),
            not_back,
            quarantine,
            _expired(store, place.below("expired"), opener),
        ),
    )
    return [
        snapshot
        for snapshot, addresses in snapshots.items()
        if broken.isdisjoint(addresses.values())
    ]


def _ranges_of_snapshots(store: Store) -> Sequence[KeyRange]:
    """Key ranges with objects of snapshots, without files of runs."""
    ranges = list(store.format.key_ranges(store.storage))
    inside = pa.array([f"{keys.prefix}/_" for keys in ranges], pa.string())
    kinds = store.format.describe(inside).field("kind").to_pylist()
    return [keys for keys, kind in zip(ranges, kinds, strict=True) if kind not in OF_RUNS]


def _expired(store: Store, place: Place, opener: Opener) -> Sequence[Part]:
    """Files with the addresses deleted by lifecycle rules."""
    if not isinstance(store, TakesReferenced):
        return ()
    written = store.write_expired(opener(place.url), place.prefix)
    return [hashed_part(file, rows) for file, rows in zip(written.files, written.rows, strict=True)]
