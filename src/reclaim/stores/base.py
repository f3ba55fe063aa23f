"""What Reclaim asks of a store.

A store has two halves. The *format* knows names and files: it is small, can be pickled, and goes
to the executors, which never see a database. The *store* itself stays on the driver: it observes
the roots and makes the changes that need the store's own consistency.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol, runtime_checkable

import pyarrow as pa

from reclaim.clock import Clock
from reclaim.model import Lease, Ref, Run, RunState, Snapshot, SnapshotId
from reclaim.policy import Policy
from reclaim.safety import SAFETY
from reclaim.storage import KeyRange, Storage
from reclaim.storage.buckets import Upload
from reclaim.stores.findings import Advance, Finding

CONTAINERS = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        # What the format needs to read and verify it.
        pa.field("detail", pa.string(), nullable=False),
        # How many entries it must have.
        pa.field("entries", pa.int64(), nullable=False),
        # 0 for what is live; otherwise the number of what made it dead, among a plan's causes.
        pa.field("cause", pa.int32(), nullable=False),
    ]
)
"""Containers that snapshots need, such as ranges or manifests."""

NO_READ = "no read"
"""The detail of a container that need not be read, or not any more: its name is enough."""

ENTRIES = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("path", pa.string()),
    ]
)
"""What a container lists: addresses in the store, and the logical path where there is one."""


SNAPSHOTS = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("last_modified", pa.timestamp("us", tz="UTC"), nullable=False),
        # The snapshot whose object it is, if it is one's.
        pa.field("id", pa.string()),
        # The snapshots that it cannot be loaded without: the one below it, and the one through
        # which it is loaded instead of all that is below.
        pa.field("parent", pa.string()),
        pa.field("through", pa.string()),
        # The ids that it holds as data; they need not be those of snapshots.
        pa.field("names", pa.list_(pa.string())),
        # What else the store wants to know of it.
        pa.field("note", pa.string()),
        # Why it cannot be read, if it cannot.
        pa.field("fault", pa.string()),
    ]
)
"""Snapshots that are files of the storage: a listing, with what tells their graph."""

DRAWN = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("written_at", pa.timestamp("us", tz="UTC")),
        pa.field("message", pa.string()),
        pa.field("parents", pa.list_(pa.string())),
        # What keeps it, in a sentence, if it is kept by the store's own rules.
        pa.field("kept_by", pa.string()),
    ]
)
"""Snapshots as a plan draws them; null where the store does not know."""

Margin = Literal["objects", "work", "records"]
"""Which of the ``Margins`` a kind of objects has."""

QUARANTINE = "quarantine"
"""The kind of what a run has set aside. Only the run that did so, or its end, touches it."""


class Format(Protocol):
    """How the objects of a store are named and its containers read."""

    @property
    def root(self) -> str:
        """The URL of the storage; addresses are relative to it."""
        ...

    @property
    def prefix(self) -> str:
        """The store's own part of the storage. Nothing outside it is ever deleted."""
        ...

    @property
    def sequential(self) -> bool:
        """Whether the objects of a kind are to be taken one after the other, as they are listed."""
        ...

    def view(self, storage: Storage) -> Storage:
        """The storage with objects as this format counts them; most count files."""
        ...

    @property
    def order(self) -> Sequence[str]:
        """The kinds that may be collected, in the order in which they are deleted."""
        ...

    @property
    def reads(self) -> frozenset[str]:
        """The kinds of snapshot containers that have to be read to know what they list.

        The others are taken by name. A format that reads any is a ``ReadsContainers``.
        """
        ...

    def quarantine_path(self, run_id: str) -> str:
        """The folder, inside the prefix, where a run sets objects aside; they are of the kind
        ``QUARANTINE``, which is in no order."""
        ...

    def key_ranges(self, storage: Storage) -> Iterator[KeyRange]:
        """Key ranges that together hold every object of the store, each object in one of them."""
        ...

    @property
    def reasons(self) -> Mapping[str, str]:
        """Why an object goes that no snapshot ever listed: a sentence for each kind."""
        ...

    @property
    def margins(self) -> Mapping[str, Margin]:
        """The margin by which each kind in the order is judged."""
        ...

    @property
    def guard_noun(self) -> str:
        """What people call a guard; "" for a store without any."""
        ...

    def describe(self, addresses: pa.Array) -> pa.StructArray:
        """For each address its ``kind``, what it ``belongs_to``, and its ``guard``.

        What it belongs to is what people are told, such as a branch. While its guard is open,
        nothing is taken of what it protects. Both are "" where there is none.
        """
        ...


@runtime_checkable
class ReadsContainers(Format, Protocol):
    """A format in which names do not tell all that a snapshot needs."""

    def containers(self, storage: Storage, address: str) -> pa.Table:
        """The containers that a snapshot container lists, as ``CONTAINERS``."""
        ...

    def entries(self, storage: Storage, container: Mapping[str, Any], *, paths: bool) -> pa.Table:
        """What a container lists, verified, as ``ENTRIES``; paths only when asked for."""
        ...


@runtime_checkable
class DecodesSnapshots(Format, Protocol):
    """A format whose snapshots are files that have to be read to know their graph."""

    def has_snapshots(self, keys: KeyRange) -> bool:
        """Whether a key range is one that a survey reads; others are listed only."""
        ...

    def survey(self, storage: Storage, ranges: Sequence[KeyRange]) -> pa.Table:
        """The objects of key ranges, as ``SNAPSHOTS``; one that cannot be read has a fault."""
        ...

    def snapshots(self, storage: Storage, addresses: Sequence[str]) -> pa.Table:
        """Some objects, in the same way."""
        ...


@dataclass(frozen=True, slots=True)
class Survey:
    """The objects of a store as ``SNAPSHOTS``, and when it was begun to list them."""

    rows: pa.Table
    started_at: datetime


class Reader(Protocol):
    """Reads many snapshots at once, on other machines where there are any."""

    def survey(self, format: DecodesSnapshots, ranges: Sequence[KeyRange]) -> pa.Table:
        """The objects of key ranges, as ``SNAPSHOTS``."""
        ...

    def snapshots(self, format: DecodesSnapshots, addresses: Sequence[str]) -> pa.Table:
        """Some objects, in the same way."""
        ...


@dataclass(frozen=True, slots=True)
class SnapshotCounts:
    """How many snapshots there are, and how many of them name a container of their own."""

    snapshots: int
    containers: int


@dataclass(frozen=True, slots=True)
class Observation:
    """What a store says of itself, from one consistent read where it allows that.

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
    """What there is, counted in another way than by reading it: by a database, or by names."""
    read: SnapshotCounts
    """What was read of that, counted as it was decoded."""
    snapshots: tuple[Snapshot, ...] = ()
    """All of ``ids``, in full, unless the store says itself what is live."""
    reached: frozenset[SnapshotId] | None = None
    """What is live by the store's own rules, for a store whose history has no policy."""
    why: Mapping[SnapshotId, str] = field(default_factory=dict)
    """What snapshots that are not live once were, where the store can tell."""
    draw: Callable[[], pa.Table] | None = None
    """Every snapshot as ``DRAWN``, where the store says itself what is live. It is not made before
    somebody asks for it: there may be very many."""
    paths: tuple[str, ...] = ()
    """Files, named as those of ``held`` are, with addresses and the paths under which they were
    staged: of objects that no snapshot lists. They explain, and protect nothing."""
    unreadable: frozenset[SnapshotId] = frozenset()
    """Snapshots that are not live and that are damaged, or being written just now."""
    warnings: tuple[str, ...] = ()
    """What a person who reads the plan should know."""
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
    """Of an object that nothing refers to."""
    work: timedelta = SAFETY.work
    """Of what a run wrote for itself and no longer needs; another may still be reading it."""
    records: timedelta = SAFETY.records
    """Of plans and journals."""

    def age(self, margin: Margin) -> timedelta:
        """How old an object must be of a kind with this margin."""
        if margin == "work":
            return max(self.objects, self.work)
        return self.records if margin == "records" else self.objects


class HeldLock(Protocol):
    """The lock of a store, while it is held."""

    @property
    def used(self) -> bool:
        """Whether tasks have worked on the strength of it."""
        ...

    @property
    def free_at(self) -> datetime | None:
        """When it is free if its holder ends now; None for at once."""
        ...

    def lent(
        self, longest: timedelta, ended: Callable[[], bool]
    ) -> AbstractContextManager[timedelta]:
        """Let tasks work on the strength of it, for the time that the block is given.

        When the block fails and ``ended`` does not know that all of them have ended, the lock is
        not given back before their time is over.
        """
        ...

    def remaining(self) -> timedelta: ...

    def check(self) -> None: ...

    def renew(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ObserveRequest:
    """What a store needs to be observed: where to write, who reads, what counts as old.

    What has to be written down goes below ``prefix`` of the ``destination``; what has to be read
    of snapshots, the ``reader`` reads, unless a ``survey`` has it already. What is younger than the
    margin may count as a root.

    With ``settled`` states alone count: what is out of time and was not ended as a state (see
    ``ClosesOverdue``) still protects its bytes, for its owner may go on with it.
    """

    destination: Storage
    prefix: str
    reader: Reader
    margin: timedelta
    survey: Survey | None = None
    settled: bool = False


class Held(Protocol):
    """A store whose lock a run holds: the only object that can change the store."""

    @property
    def lock(self) -> HeldLock: ...

    def begin(self) -> None:
        """Take back what a run that died left, and note that this one works here now."""
        ...

    def condemn(self, rules: Mapping[SnapshotId, str]) -> int:
        """Condemn snapshots provisionally, with the rule that takes each; returns how many.

        One that a ref or a valid lease names is left alone: it came back to life.
        """
        ...

    def release(self, ids: Collection[SnapshotId]) -> None:
        """Take back what was provisional, of snapshots that are live after all."""
        ...

    def promote(self) -> int:
        """Make what is provisional terminal, all at once."""
        ...

    def abandon(self) -> None:
        """Take back what is provisional, of a run that stops before it has condemned anything."""
        ...

    def collect(self, ids: Collection[SnapshotId]) -> int:
        """Remove snapshots that are condemned and whose objects are gone."""
        ...

    def start(self, run: Run) -> None:
        """Record that a run has started; one that was started before goes on."""
        ...

    def finish(self, run_id: str, state: RunState, summary: Mapping[str, Any]) -> None:
        """Record how far a run came."""
        ...


class Store(Protocol):
    """A store that can be observed and, by whoever holds its lock, collected."""

    kind: str
    name: str
    uid: str
    noun: str
    """What its people call a snapshot."""
    deleted: bool
    """Whether the store itself is gone, so that nothing of it needs to stay."""
    exact: bool
    """Whether all references are known; otherwise the margins protect what is live."""
    safety_basis: str
    """The sentence that says why nothing live is taken: exact references, or a margin."""
    quarantine_by_default: bool
    """Whether objects are set aside unless one asks to delete them at once."""
    storage: Storage
    clock: Clock

    @property
    def format(self) -> Format: ...

    def check(self) -> None:
        """Refuse what must not be collected: other versions, a storage ahead of the database."""
        ...

    def observe(self, request: ObserveRequest) -> Observation:
        """Read all roots, in one consistent read where the store allows that."""
        ...

    def place(self, run_id: str) -> tuple[str, str]:
        """Where a run's plan goes by default: (URL of a storage, prefix in it)."""
        ...

    def lock(self, run_id: str) -> AbstractContextManager[Held]:
        """Exclude every other apply, undo and purge of the store, and be able to change it."""
        ...

    def lock_holder(self) -> str | None:
        """The run that holds the lock, or whose tasks may still be at work."""
        ...

    def record_plan(self, run_id: str, digest: str) -> None:
        """Record what a plan hashes to, where who can write its files alone cannot change it.

        It is the one thing that a plan writes outside its place. It is kept for as long as the
        files of plans are.
        """
        ...

    def recorded_plan(self, run_id: str) -> str | None:
        """What a plan hashed to when it was made; None when that was not recorded, or long ago."""
        ...

    def add_run(self, run: Run) -> None:
        """Record a run that ended and changed nothing; it needs no lock."""
        ...

    def find_run(self, run_id: str) -> Run | None: ...

    def runs(self) -> Sequence[Run]:
        """All of them, the newest first."""
        ...


# What a store may be able to do besides.


class HistorySeen(Protocol):
    """A history as it was read at once, to decide on an edit of it."""

    @property
    def snapshots(self) -> Sequence[Snapshot]: ...

    @property
    def refs(self) -> Sequence[Ref]: ...

    @property
    def busy(self) -> frozenset[str]:
        """The branches that somebody works on."""
        ...


@runtime_checkable
class EditsHistory(Protocol):
    """A held store whose history can be edited: new parents, refs that go, all or nothing."""

    def read_history(self) -> HistorySeen:
        """The history as it stands, without what runs that died made of it."""
        ...

    def edit_history(
        self,
        reparent: Mapping[SnapshotId, tuple[SnapshotId, ...]],
        delete_refs: Sequence[Ref],
        seen: HistorySeen,
    ) -> bool:
        """Edit a history as was decided on what was seen of it.

        False, with nothing done, if that decision need not hold any more: somebody edited the
        history since, or made or moved a ref so that it reaches more.
        """
        ...

    def undo_edit(self) -> Sequence[str]:
        """Take the edit of the run back that condemned nothing; what was left, in sentences.

        Refused if it did condemn something, or edited nothing. The run counts as undone afterwards.
        """
        ...

    def roll_back(self) -> Sequence[str] | None:
        """Take the edit of a run back that stops, so that it can be made again; what was left.

        None if the run has condemned something, and its edit stands.
        """
        ...


@runtime_checkable
class ExpiresItself(Protocol):
    """A held store whose history only its own library edits, by rules that it can express.

    A plan predicts the edit. An apply lets the library edit and then observes again: what is live
    then decides, not the prediction.
    """

    def expire_history(self, policy: Policy, now: datetime) -> None: ...


@runtime_checkable
class ClosesOverdue(Protocol):
    """A held store in which what is out of time has to be ended as a state."""

    def close_overdue(self) -> None:
        """End, for good, what a plan may count as ended: partitions and uploads out of time."""
        ...


@dataclass(frozen=True, slots=True)
class Restored:
    """What an undo brought back, and sentences about what it did not.

    What was ``left`` has changed since and is somebody else's now; what ``waits`` comes back with a
    later undo of the same run, once all that it needs is there.
    """

    snapshots: int
    left: Sequence[str]
    waits: Sequence[str]


@runtime_checkable
class Quarantines(Protocol):
    """A store that can have snapshots back whose objects were set aside; see ``SetsAside``."""

    def taken(self, run_id: str) -> Mapping[SnapshotId, Mapping[str, str]]:
        """The snapshots that a run condemned, with those of their containers, by kind, that tell
        whether they are whole."""
        ...

    def waiting(self, run_id: str) -> Mapping[str, Collection[str]]:
        """By kind the containers of snapshots that a run condemned and has not set aside."""
        ...


@runtime_checkable
class SetsAside(Protocol):
    """What the held handle of a store that quarantines can do."""

    def set_aside(self, ids: Collection[SnapshotId]) -> int:
        """Note of condemned snapshots that their objects were set aside."""
        ...

    def restore(self, run_id: str, whole: Collection[SnapshotId], *, complete: bool) -> Restored:
        """Take back what a run did to snapshots and refs, all at once, where nothing changed.

        Only snapshots that are whole come back. The run counts as undone afterwards if nothing
        waits and it is ``complete``: all of its objects are back.
        """
        ...

    def forget(self, run_id: str) -> int:
        """Remove the snapshots whose objects a run set aside; these are deleted by now."""
        ...


@runtime_checkable
class CompactsMetadata(Protocol):
    """A store in which something stays that nobody needs: old rows, what runs left that died."""

    def clean(self) -> None:
        """Remove it; what runs left only while no run holds the lock."""
        ...


@runtime_checkable
class OrdersDeletes(Protocol):
    """A store whose objects of one kind go one after the other."""

    def in_order(self, addresses: Sequence[str], reader: Reader) -> Sequence[str]:
        """Objects, from the first to go to the last; they come back the other way round."""
        ...


@runtime_checkable
class ReportsRereferenced(Protocol):
    """A store that may have begun to refer to something that was set aside."""

    def needed(self, run_id: str, reader: Reader) -> Collection[str]:
        """What of a run's quarantine something refers to now, by where it was set aside."""
        ...


@runtime_checkable
class ListsLeases(Protocol):
    """A store that knows who uses its snapshots."""

    def leases(self) -> Sequence[tuple[Lease, bool]]:
        """All leases, and whether each is valid."""
        ...


@runtime_checkable
class NeedsOtherSnapshots(Protocol):
    """A store whose snapshots are of no use without others, such as their parents."""

    def keep_whole(
        self, seen: Observation, held: Iterable[str], *, besides: str, reader: Reader
    ) -> Observation:
        """An observation in which what promised snapshots need is live as well.

        Promised are those that other runs than ``besides`` have set aside and can bring back, and
        those at the addresses ``held``, which they were about to take or have begun to bring back.
        """
        ...


@runtime_checkable
class HoldsLeases(ListsLeases, Protocol):
    """A store in which snapshots can be leased by whoever uses them."""

    def take_lease(self, snapshot: str, *, holder: str, length: timedelta) -> Lease: ...

    def renew_lease(self, lease: Lease) -> Lease: ...

    def release_lease(self, lease_id: str) -> None: ...


@runtime_checkable
class AllowsMissing(Protocol):
    """A store that can tell that snapshots are missing which others name."""

    def allow_missing(self) -> None:
        """Go on without them: a person says that they are lost for good."""
        ...


@runtime_checkable
class Examines(Protocol):
    """A store that knows what can be wrong with it; whatever kind it is, ``doctor`` asks it."""

    def findings(self, *, deep: bool, advance: Advance | None) -> Iterator[Finding]:
        """What is worth telling. ``deep`` looks for all live data.

        With ``advance``, which is told of each object, the bytes of all live data are read as well.
        """
        ...


@runtime_checkable
class AdoptsUnknown(Protocol):
    """A store whose storage can be ahead of what it knows; see ``held.adopt``."""

    def unknown_guards(self) -> Sequence[str]:
        """What protects objects, or did, and only the storage knows."""
        ...


@runtime_checkable
class Adopts(Protocol):
    """The held handle of such a store."""

    def adopt(self, unknown: Collection[str]) -> None:
        """Register them as closed: a person says that the store is the right one."""
        ...


@runtime_checkable
class AbortsUploads(Protocol):
    """A store in whose bucket uploads can be left that were never finished."""

    def old_uploads(self) -> Sequence[Upload]:
        """Those that are nobody's any more."""
        ...

    def abort_uploads(self, uploads: Sequence[Upload]) -> int:
        """Give uploads up; returns the bytes that this frees."""
        ...
