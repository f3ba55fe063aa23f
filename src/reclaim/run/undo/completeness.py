"""Whether everything is there that snapshots need: asked before they are promised or come back."""

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
    aside: QuarantineFolder | None = None,
    opener: Opener = open_storage,
) -> Sequence[SnapshotId]:
    """The snapshots, given with their containers by kind, that have everything they need.

    What a lifecycle rule took is not missing: whoever reads it is told so. What lies where
    something could not be brought back, by the journals ``not_back``, is not what was there;
    ``aside`` is where these have it.
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
            aside,
            _expired(store, place.below("expired"), opener),
        ),
    )
    return [one for one, mine in snapshots.items() if broken.isdisjoint(mine.values())]


def _ranges_of_snapshots(store: Store) -> Sequence[KeyRange]:
    """The key ranges that may hold what snapshots need: not the files of runs."""
    ranges = list(store.format.key_ranges(store.storage))
    inside = pa.array([f"{keys.prefix}/_" for keys in ranges], pa.string())
    kinds = store.format.describe(inside).field("kind").to_pylist()
    return [keys for keys, kind in zip(ranges, kinds, strict=True) if kind not in OF_RUNS]


def _expired(store: Store, place: Place, opener: Opener) -> Sequence[Part]:
    """The addresses that rules took, in files."""
    if not isinstance(store, TakesReferenced):
        return ()
    written = store.write_expired(opener(place.url), place.prefix)
    return [hashed_part(file, rows) for file, rows in zip(written.files, written.rows, strict=True)]
