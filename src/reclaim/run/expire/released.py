"""Snapshots released by the edit of a store's own library, saved before the call.

The library cannot revert its edit. So the released snapshots must be known if the run is
interrupted, and until its quarantine ends: until then other runs keep them, and an undo holds them.

The file is stored next to the plan in the store; the run record has its name, which includes its
hash.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa

from reclaim.engine.tasks.parts import Place
from reclaim.errors import Corrupt, NotFound, PlanRefused, Refused
from reclaim.history import build
from reclaim.history.graph import reachable
from reclaim.model import UNDO_HOLDER, SnapshotId
from reclaim.run_record import RunRecord
from reclaim.safety import SAFETY
from reclaim.storage import hashed_files
from reclaim.stores.abilities import HeldExpiration, Quarantines
from reclaim.stores.base import Held, Store
from reclaim.stores.findings import abbreviate

RELEASED = pa.schema(
    [
        pa.field("snapshot", pa.string(), nullable=False),
        # Whether the run may delete it: both the plan and each prediction name it.
        pa.field("reviewed", pa.bool_(), nullable=False),
        # Whether it was reachable before the library's edit.
        pa.field("released", pa.bool_(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class Released:
    """Snapshots a run may delete, and snapshots made unreachable by the library's edits.

    Snapshots in ``released`` but not in ``reviewed`` were removed beyond the prediction.
    """

    reviewed: frozenset[SnapshotId]
    released: frozenset[SnapshotId] = frozenset()

    def edited_again(
        self, reviewed: frozenset[SnapshotId], newly_released: frozenset[SnapshotId]
    ) -> Released:
        """Add another edit: only snapshots released by every prediction may be deleted."""
        return Released(self.reviewed & reviewed, self.released | newly_released)

    def beyond(self, unplanned: frozenset[SnapshotId]) -> Released:
        return replace(self, released=self.released | unplanned)


def write_released(store: Store, run_id: str, released: Released) -> str:
    """Write the snapshots released by a library's edit; return the address, for the run record."""
    snapshots = sorted(released.reviewed | released.released)
    rows = [
        snapshots,
        [snapshot in released.reviewed for snapshot in snapshots],
        [snapshot in released.released for snapshot in snapshots],
    ]
    stem = Place(*store.place(run_id)).at("released")
    columns = [pa.array(row, field.type) for row, field in zip(rows, RELEASED, strict=True)]
    address, _ = hashed_files.write(store.storage, stem, pa.table(columns, schema=RELEASED))
    store.storage.flush([address])
    return address


def read_released(store: Store, run: RunRecord | None) -> Released | None:
    """Read the snapshots released by a run's library edits; None if the library was not called."""
    if run is None or not run.edit.released_file:
        return None
    # By name in the run's own folder: in a copy of the store, the record has the address in the
    # original.
    address = Place(*store.place(run.id)).at(run.edit.released_file.rpartition("/")[2])
    try:
        rows = hashed_files.read(store.storage, address)
    except (NotFound, PlanRefused, Corrupt) as error:
        raise Refused(
            f"the list of snapshots released by the library of {store.name} for run {run.id} "
            f"cannot be read: {error.message}",
            hint=f"restore {address} from a backup, or end the run with `reclaim purge`",
        ) from error

    def chosen(column: str) -> frozenset[SnapshotId]:
        return frozenset(rows.filter(rows.column(column)).column("snapshot").to_pylist())

    return Released(chosen("reviewed"), chosen("released"))


def still_promised(store: Store, run: RunRecord) -> frozenset[SnapshotId]:
    """Snapshots released by a run's library but not taken by the run.

    They are promised until the quarantine ends. The run may have been interrupted before it took
    them, a lease may have spared them, or nobody had reviewed them. The store knows the taken
    snapshots.
    """
    if run.quarantine is None or not isinstance(store, Quarantines):
        return frozenset()
    released = read_released(store, run)
    return frozenset() if released is None else released.released.difference(store.taken(run.id))


def hold_released(store: Store, held: Held, run: RunRecord) -> tuple[str, ...]:
    """Hold released snapshots without a ref until the end of the run's quarantine.

    Call under the lock, before the run counts as undone. Return sentences about the hold.
    """
    released = read_released(store, run)
    if released is None or not isinstance(held, HeldExpiration):
        return ()
    now = store.clock.now()
    until = run.quarantine.until if run.quarantine else None
    end = max(until or now, now + SAFETY.after_undo)
    snapshots = held.hold_released(run.id, _out_of_reach(held, released.released), end)
    if not snapshots:
        return ()
    return (
        f"the history, edited by the library of {store.name}; leases hold "
        f"{abbreviate(sorted(snapshots))} until {end:%F %T} UTC, make a branch or a tag there",
    )


def find_hold(store: Store, run_id: str) -> datetime | None:
    """End of the undo leases on restored snapshots; None without such leases."""
    ends = [lease.end for lease, valid in store.leases() if valid and lease.undone_run == run_id]
    return max(ends, default=None)


def release_command(store: str, run_id: str) -> str:
    """Command to release the snapshots held by an undo, with the store's name in commands."""
    return f"reclaim lease release {store} --holder '{UNDO_HOLDER}{run_id}'"


def _out_of_reach(held: HeldExpiration, ids: Collection[SnapshotId]) -> list[SnapshotId]:
    seen = held.read_history()
    history = build(seen.snapshots, seen.refs)
    reached = reachable(history.parents, history.tips)
    return sorted(
        snapshot
        for snapshot in ids
        if snapshot not in history.numbers or not reached[history.numbers[snapshot]]
    )
