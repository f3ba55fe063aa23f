"""State of a store as observed, and the request to observe it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pyarrow as pa

from reclaim.model import Lease, Ref, Snapshot, SnapshotId
from reclaim.safety import SAFETY
from reclaim.storage import Storage
from reclaim.stores.format import Margin, Reader


@dataclass(frozen=True, slots=True)
class Survey:
    """Objects of a store as ``SNAPSHOTS``, and the start time of the listing."""

    rows: pa.Table
    started_at: datetime


@dataclass(frozen=True, slots=True)
class SnapshotCounts:
    """Number of snapshots, and number of snapshots with a container of their own."""

    snapshots: int
    containers: int


@dataclass(frozen=True, slots=True)
class YoungSnapshots:
    """Snapshots without references kept only by their age, and their times of writing.

    Older snapshots needed by young snapshots are not counted.
    """

    count: int
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class Observation:
    """State of a store, from one consistent read where the store allows it.

    ``containers`` maps each kind to the addresses of the containers named by snapshots. A snapshot
    has at most one container of each kind; condemned snapshots are included here, but not in
    ``ids``. Containers known by name may be missing. ``held`` are files of addresses needed by
    anything other than a snapshot; each file name ends with the SHA-256 of the file, before its
    suffix. A guard neither open nor closed is unknown.
    """

    refs: tuple[Ref, ...]
    ids: frozenset[SnapshotId]
    """Snapshots to be judged."""
    leases: tuple[Lease, ...]
    busy: frozenset[str]
    containers: Mapping[str, Mapping[SnapshotId, str]]
    marked: Mapping[SnapshotId, str]
    """Snapshots with a provisional state, and condemned snapshots: id → state."""
    closed: frozenset[str]
    open: frozenset[str]
    """Guards of objects (see ``Format.describe``)."""
    held: tuple[str, ...]
    held_count: int
    read_at: datetime
    expected: SnapshotCounts
    """Number of snapshots, counted independently of reading them: by a database, or by names."""
    read: SnapshotCounts
    """Number of snapshots read, counted while decoding."""
    snapshots: tuple[Snapshot, ...] = ()
    """All snapshots of ``ids``, in full, unless the store itself decides which are live."""
    reached: frozenset[SnapshotId] | None = None
    """Snapshots live under the store's own rules, for a store whose history has no policy."""
    why: Mapping[SnapshotId, str] = field(default_factory=dict)
    """Former roles of dead snapshots, where the store knows them."""
    list_snapshots: Callable[[], pa.Table] | None = None
    """Returns every snapshot as ``LISTED_SNAPSHOTS``, if the store itself decides which are live.
    Computed only on demand: there may be very many snapshots.
    """
    paths: tuple[str, ...] = ()
    """Files, named like those of ``held``, with addresses and staged paths of objects listed by no
    snapshot. They explain objects, and protect nothing.
    """
    unreadable: frozenset[SnapshotId] = frozenset()
    """Dead snapshots which are damaged, or still being written."""
    promised: frozenset[SnapshotId] = frozenset()
    """Snapshots required to undo runs: held, as by leases."""
    too_young: frozenset[SnapshotId] = frozenset()
    """Unreferenced snapshots kept because they are young: held, as by leases."""
    warnings: tuple[str, ...] = ()
    """Sentences for readers of the plan."""
    young: YoungSnapshots | None = None
    """Summary of snapshots kept by age, where the store has such a rule."""
    final: frozenset[str] = frozenset()
    """Closed guards without possible writers, under any margin."""
    protect: tuple[str, ...] = ()
    """Globs of protected paths, from the settings of the store."""
    protected_paths: tuple[str, ...] = ()
    """Files, named like those of ``held``, with addresses and paths matching these globs, for paths
    not recorded in snapshots.
    """
    editor: str | None = None
    """Run whose edit of the history was observed and may still be reverted."""


BUDGET = SAFETY.budget
"""Time limit from the read of leases to the first delete, or to the end of a mark with a limit.

Leases are valid for longer than this limit.
"""


@dataclass(frozen=True, slots=True)
class Margins:
    """Minimum ages before deletion. The defaults suit stores with exact references."""

    objects: timedelta = SAFETY.objects
    """Minimum age of an unreferenced object."""
    work: timedelta = SAFETY.work
    """Minimum age of a finished run's working files; other runs may still read them."""
    records: timedelta = SAFETY.records
    """Minimum age of plans and journals."""

    def age(self, margin: Margin) -> timedelta:
        """Minimum age of objects with this margin."""
        if margin == "work":
            return max(self.objects, self.work)
        return self.records if margin == "records" else self.objects


@dataclass(frozen=True, slots=True)
class ObserveRequest:
    """Request to observe a store: destination of files, reader, margin.

    Files are written below ``prefix`` of the ``destination``. Snapshots are read by the ``reader``,
    unless a ``survey`` already contains them. Objects younger than the margin may count as roots.

    With ``settled``, only recorded states release protection: an overdue partition or upload not
    yet closed (see ``HeldGuards``) still protects its bytes, because its owner may continue.
    """

    destination: Storage
    prefix: str
    reader: Reader
    margin: timedelta
    survey: Survey | None = None
    settled: bool = False
