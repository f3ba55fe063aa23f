"""Snapshots that the edit of a store's own library releases: written down before it is asked.

The library cannot take its edit back, so what it takes out of reach must be known wherever the run
is cut off, and to the end of its window: until then other runs leave it alone, and an undo holds
it.
The file is beside the run's record in the store, which has its name, and so its hash.
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
        # Whether the run may take it: the plan names it, and so did each prediction.
        pa.field("reviewed", pa.bool_(), nullable=False),
        # Whether it was in reach before the library edited.
        pa.field("released", pa.bool_(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class Released:
    """The snapshots that a run may take, and those that the library's edits take out of reach.

    What is ``released`` and not ``reviewed`` the library took beyond what was predicted.
    """

    reviewed: frozenset[SnapshotId]
    released: frozenset[SnapshotId] = frozenset()

    def edited_again(
        self, reviewed: frozenset[SnapshotId], more: frozenset[SnapshotId]
    ) -> Released:
        """With one more edit: only what every prediction let go of may be taken."""
        return Released(self.reviewed & reviewed, self.released | more)

    def beyond(self, unplanned: frozenset[SnapshotId]) -> Released:
        return replace(self, released=self.released | unplanned)


def write_released(store: Store, run_id: str, released: Released) -> str:
    """Write down what a library's edit releases; returns the address, for the run's record."""
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
    """The record of what a run's library edits released; None if it has asked no library."""
    if run is None or not run.edit.released_file:
        return None
    # By its name in the run's own folder: in a copy of the store the record has the address that
    # it has in the original.
    address = Place(*store.place(run.id)).at(run.edit.released_file.rpartition("/")[2])
    try:
        rows = hashed_files.read(store.storage, address)
    except (NotFound, PlanRefused, Corrupt) as error:
        raise Refused(
            f"run {run.id} let the library of {store.name} edit the history, and the list of what "
            f"that released cannot be read: {error.message}",
            hint=f"restore {address} from a backup, or end the run with `reclaim purge`",
        ) from error

    def chosen(column: str) -> frozenset[SnapshotId]:
        return frozenset(rows.filter(rows.column(column)).column("snapshot").to_pylist())

    return Released(chosen("reviewed"), chosen("released"))


def still_promised(store: Store, run: RunRecord) -> frozenset[SnapshotId]:
    """Snapshots that a run's library released and that the run itself has not taken.

    They are promised for all of its window. It may have been cut off before it took them, a lease
    may have spared them, or nobody had reviewed them. What it took, the store knows as taken.
    """
    if run.quarantine is None or not isinstance(store, Quarantines):
        return frozenset()
    released = read_released(store, run)
    return frozenset() if released is None else released.released.difference(store.taken(run.id))


def hold_released(store: Store, held: Held, run: RunRecord) -> tuple[str, ...]:
    """Hold what the library released and no ref reaches, until the end of the run's window.

    Only under the lock, and before the run counts as undone. Returns sentences about it.
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
        f"the history, which the library of {store.name} edited; leases hold "
        f"{abbreviate(sorted(snapshots))} until {end:%F %T} UTC, make a branch or a tag there",
    )


def find_hold(store: Store, run_id: str) -> datetime | None:
    """When the leases of an undo end, which hold what it brought back; None if it has none."""
    ends = [lease.end for lease, valid in store.leases() if valid and lease.undone_run == run_id]
    return max(ends, default=None)


def release_command(store: str, run_id: str) -> str:
    """The command that releases what the undo of a run holds, by the store's name in commands."""
    return f"reclaim lease release {store} --holder '{UNDO_HOLDER}{run_id}'"


def _out_of_reach(held: HeldExpiration, ids: Collection[SnapshotId]) -> list[SnapshotId]:
    seen = held.read_history()
    history = build(seen.snapshots, seen.refs)
    reached = reachable(history.parents, history.tips)
    return sorted(
        one for one in ids if one not in history.numbers or not reached[history.numbers[one]]
    )
