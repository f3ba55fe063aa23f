"""The state of a store as it is observed, and what observing it needs."""

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
    """The objects of a store as ``SNAPSHOTS``, and when it was begun to list them."""

    rows: pa.Table
    started_at: datetime


@dataclass(frozen=True, slots=True)
class SnapshotCounts:
    """How many snapshots there are, and how many of them name a container of their own."""

    snapshots: int
    containers: int


@dataclass(frozen=True, slots=True)
class YoungSnapshots:
    """Snapshots that nothing refers to and that only their age keeps, and when they were written.

    One that others need which are young is not among them.
    """

    count: int
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class Observation:
    """The state of a store, from one consistent read where it allows that.

    ``containers`` has by kind the addresses of the containers that snapshots name themselves. A
    snapshot may have one of each kind, or none; snapshots that are condemned already are in it and
    not among ``ids``. What is taken by name need not be there. ``held`` are
    files with addresses that are needed by something else than a snapshot; the name of each ends
    with the SHA-256 that it must have, before its suffix. A guard that is neither open nor closed
    is not known at all.
    """

    refs: tuple[Ref, ...]
    ids: frozenset[SnapshotId]
    """The snapshots that are to be judged."""
    leases: tuple[Lease, ...]
    busy: frozenset[str]
    containers: Mapping[str, Mapping[SnapshotId, str]]
    marked: Mapping[SnapshotId, str]
    """Snapshots with a mark that is not terminal, and condemned ones: id → state."""
    closed: frozenset[str]
    open: frozenset[str]
    """The guards of objects (see ``Format.describe``)."""
    held: tuple[str, ...]
    held_count: int
    read_at: datetime
    expected: SnapshotCounts
    """Snapshots there are, counted in another way than by reading: by a database, or by names."""
    read: SnapshotCounts
    """Snapshots that were read, counted as they were decoded."""
    snapshots: tuple[Snapshot, ...] = ()
    """All of ``ids``, in full, unless the store says itself what is live."""
    reached: frozenset[SnapshotId] | None = None
    """Snapshots live by the store's own rules, for a store whose history has no policy."""
    why: Mapping[SnapshotId, str] = field(default_factory=dict)
    """Former roles of snapshots that are not live, where the store can tell."""
    draw: Callable[[], pa.Table] | None = None
    """Every snapshot as ``DRAWN``, where the store says itself what is live. It is not made before
    somebody asks for it: there may be very many."""
    paths: tuple[str, ...] = ()
    """Files, named as those of ``held`` are, with addresses and the paths under which they were
    staged: of objects that no snapshot lists. They explain, and protect nothing."""
    unreadable: frozenset[SnapshotId] = frozenset()
    """Snapshots that are not live and that are damaged, or being written just now."""
    promised: frozenset[SnapshotId] = frozenset()
    """Snapshots that runs which can be undone would build on: held, as by leases."""
    too_young: frozenset[SnapshotId] = frozenset()
    """Snapshots that nothing need refer to, and that stay because they are young: held, as by
    leases."""
    warnings: tuple[str, ...] = ()
    """Sentences for whoever reads the plan."""
    young: YoungSnapshots | None = None
    """Where a store keeps snapshots for being young."""
    final: frozenset[str] = frozenset()
    """Closed guards below which nobody can write any more, by any margin."""
    protect: tuple[str, ...] = ()
    """Globs of what is never taken, as a setting of the store has them."""
    protected_paths: tuple[str, ...] = ()
    """Files, named as those of ``held`` are, with addresses and paths that these globs match, as
    far as no snapshot tells them."""
    editor: str | None = None
    """A run whose edit of the history was seen and may still be taken back."""


BUDGET = SAFETY.budget
"""From the read of leases to the first delete, or to the end of a mark where that must be quick.

Leases are valid for longer than that.
"""


@dataclass(frozen=True, slots=True)
class Margins:
    """How old things must be before they may go. The defaults suit stores that guess nothing."""

    objects: timedelta = SAFETY.objects
    """Age of an object that nothing refers to."""
    work: timedelta = SAFETY.work
    """Age of files that a run wrote for itself and no longer needs; another may still read them."""
    records: timedelta = SAFETY.records
    """Age of plans and journals."""

    def age(self, margin: Margin) -> timedelta:
        """How old an object must be of a kind with this margin."""
        if margin == "work":
            return max(self.objects, self.work)
        return self.records if margin == "records" else self.objects


@dataclass(frozen=True, slots=True)
class ObserveRequest:
    """A request to observe a store: where to write, who reads, what counts as old.

    What has to be written down goes below ``prefix`` of the ``destination``; what has to be read
    of snapshots, the ``reader`` reads, unless a ``survey`` has it already. What is younger than the
    margin may count as a root.

    With ``settled`` states alone count: what is out of time and was not ended as a state (see
    ``HeldGuards``) still protects its bytes, for its owner may go on with it.
    """

    destination: Storage
    prefix: str
    reader: Reader
    margin: timedelta
    survey: Survey | None = None
    settled: bool = False
