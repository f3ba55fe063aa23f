"""A shelf as the runs of Reclaim see it, and how ``shelf:LOCATION`` is opened."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from datetime import timedelta
from importlib.util import find_spec
from urllib.parse import unquote

from reclaim.clock import Clock, SystemClock
from reclaim.errors import (
    Conflict,
    Corrupt,
    Gone,
    InvalidInput,
    NotFound,
    ReclaimError,
    Refused,
    UnknownVersion,
)
from reclaim.history import Edit
from reclaim.history.graph import ids, reachable
from reclaim.ids import new_uid
from reclaim.model import History, Lease, RefKind, SnapshotId
from reclaim.storage import ObjectStorage, Storage
from reclaim.stores.abilities import Examines, Expiration, ExpiresItself, HoldsLeases, Quarantines
from reclaim.stores.findings import Advance, Finding, Level, abbreviate
from reclaim.stores.observation import Observation, ObserveRequest, SnapshotCounts
from reclaim.stores.registry import FindsStores
from reclaim.stores.sidecar.condemned import Condemnation
from reclaim.stores.sidecar.sidecar import Sidecar
from reclaim.stores.sidecar.store import SidecarStore
from reclaim.urls import normalize, url_of
from tests.stores.shelf.format import ATTRIBUTES_FILE, OURS, SNAPSHOT, ShelfFormat
from tests.stores.shelf.held import HeldShelf, HistoryRead, refs_in, snapshots_in, withdrawn_in
from tests.stores.shelf.library import ATTRIBUTES, INDEX, SNAPSHOTS, VERSION, Index, Shelf

LIBRARY = Shelf.__module__

SAFETY_BASIS = (
    "Snapshots and refs are in one index, which was read after the listing. A commit in the making "
    "is protected by the margin alone."
)


class ShelfStore(SidecarStore, Examines, ExpiresItself, HoldsLeases, Quarantines):
    """One shelf."""

    kind = "shelf"
    noun = "snapshot"
    exact = False
    deleted = False
    quarantine_by_default = True
    safety_basis = SAFETY_BASIS
    handle = HeldShelf
    format: ShelfFormat

    def __init__(
        self, location: str, *, clock: Clock | None = None, storage: Storage | None = None
    ) -> None:
        self.uid = normalize(location)
        root, _, name = self.uid.rpartition("/")
        self.name = unquote(name) if root.startswith("file:") else name
        if root.endswith("/"):
            raise InvalidInput(f"{location} is a whole bucket or disk", hint="name a folder in it")
        self.clock = clock or SystemClock()
        self.format = ShelfFormat(root, self.name)
        self.storage = storage or ObjectStorage.open(root)
        ours = f"{self.format.prefix}{OURS}/"
        super().__init__(Sidecar(self.storage, ours, self.clock))
        self.library = Shelf(self.storage, self.format.prefix, self.clock)

    def check(self) -> None:
        self._index()

    def _index(self) -> Index:
        try:
            index = self.library.read()
        except NotFound as error:
            raise NotFound(f"there is no shelf at {self.uid}", hint="name its folder") from error
        except (ValueError, KeyError) as error:
            raise Corrupt(f"{self.uid}/{INDEX} cannot be read: {error!r}") from error
        if index.version != VERSION:
            raise UnknownVersion(f"{self.uid} has version {index.version} of the format")
        return index

    def observe(self, request: ObserveRequest) -> Observation:
        read_at = self.clock.now()
        index, states = self._index(), self._sidecar.lists.states()
        leases = self._sidecar.leases.valid(read_at)
        provisional = {
            one: entry
            for one, entry in withdrawn_in(index).items()
            if states.get(one) is Condemnation.PROVISIONAL
        }
        entries = {SnapshotId(name): entry for name, entry in index.snapshots.items()} | provisional
        everything = sorted({*entries, *states})
        marked = sum(
            state is Condemnation.PROVISIONAL and one not in index.snapshots
            for one, state in states.items()
        )
        expected = index.count + marked
        return Observation(
            refs=refs_in(index),
            ids=frozenset(entries),
            snapshots=snapshots_in(entries),
            leases=leases,
            busy=frozenset(),
            containers={
                SNAPSHOT: {one: self.library.address(SNAPSHOTS, one) for one in everything},
                ATTRIBUTES_FILE: {one: self.library.address(ATTRIBUTES, one) for one in everything},
            },
            marked={one: state.value for one, state in states.items()},
            closed=frozenset(),
            open=frozenset(),
            held=(),
            held_count=0,
            read_at=read_at,
            expected=SnapshotCounts(expected, 2 * expected),
            read=SnapshotCounts(len(entries), 2 * len(entries)),
        )

    @contextmanager
    def lock(self, run_id: str) -> Iterator[HeldShelf]:
        with self._sidecar.lock(run_id) as lock:
            yield HeldShelf(lock, self._sidecar, self.library, self.clock)

    def clean(self) -> None:
        if self._sidecar.lists.any_provisional():
            with suppress(Conflict), self.lock(new_uid()) as held:
                held.begin()

    # History

    def expressible_rules(self) -> frozenset[str]:
        return frozenset({"older_than", "delete_expired_tags", "delete_expired_branches"})

    def predict_edit(
        self, history: History, kept: AbstractSet[SnapshotId], expiration: Expiration
    ) -> Edit:
        """What ``Shelf.expire`` does: tips stay alone, and what loses a parent hangs on its origin.

        It shares nothing with the library, so that one can be held to the other.
        """
        tips = list(zip(history.refs, history.tips, strict=True))
        stays = [
            not above or snapshot.id in kept
            for snapshot, above in zip(history.snapshots, history.parents, strict=True)
        ]
        asked = {
            RefKind.TAG: expiration.delete_expired_tags,
            RefKind.BRANCH: expiration.delete_expired_branches,
        }
        expired_tips = tuple(ref for ref, tip in tips if not stays[tip])
        deleted = tuple(ref for ref in expired_tips if asked[ref.kind] and not ref.default)
        left = [tip for ref, tip in tips if ref not in deleted]
        for tip in left:
            stays[tip] = True
        origins = list(range(len(stays)))
        for number in reversed(range(len(stays))):
            if above := history.parents[number]:
                origins[number] = origins[above[0]]
        after = [
            (origins[number],) if stays[number] and not all(stays[one] for one in above) else above
            for number, above in enumerate(history.parents)
        ]
        reached = reachable(after, left)
        return Edit(
            reparent={
                history.snapshots[number].id: ids(history, new)
                for number, new in enumerate(after)
                if new != history.parents[number]
            },
            delete_refs=deleted,
            unreachable=ids(
                history, (at for at, is_reached in enumerate(reached) if not is_reached)
            ),
            touched_bases=(),
            expired_tips=expired_tips,
            kept_bases={},
        )

    def irreversible(self) -> str:
        return (
            "the history is edited by the shelf's own library, which cannot take that back: an "
            "undo brings back snapshots and their objects, and holds them for the rest of the "
            "quarantine; it brings back neither parents nor refs"
        )

    def check_library(self) -> None:
        if find_spec(LIBRARY) is None:
            raise Refused("the library of shelves is not installed", hint="install it")

    def current_history(self) -> HistoryRead:
        index = self._index()
        entries = {SnapshotId(name): entry for name, entry in index.snapshots.items()}
        return HistoryRead(snapshots_in(entries), refs_in(index))

    # The way back

    def taken(self, run_id: str) -> Mapping[SnapshotId, Mapping[str, str]]:
        return {
            one: {
                SNAPSHOT: self.library.address(SNAPSHOTS, one),
                ATTRIBUTES_FILE: self.library.address(ATTRIBUTES, one),
            }
            for one in self._sidecar.lists.taken_by(run_id)
        }

    def promised(self, runs: Collection[str]) -> Mapping[str, Mapping[str, Collection[str]]]:
        taken = {run_id: self._sidecar.lists.taken_by(run_id) for run_id in runs}
        return {
            run_id: {
                SNAPSHOT: [self.library.address(SNAPSHOTS, one) for one in snapshots],
                ATTRIBUTES_FILE: [self.library.address(ATTRIBUTES, one) for one in snapshots],
            }
            for run_id, snapshots in taken.items()
        }

    # Leases

    def take_lease(self, snapshot: str, *, holder: str, length: timedelta) -> Lease:
        return self._sidecar.leases.take(
            SnapshotId(snapshot), self._needs, holder=holder, length=length
        )

    def _needs(self, snapshot: SnapshotId) -> Collection[SnapshotId]:
        if snapshot not in self._index().snapshots:
            raise Gone(f"there is no snapshot {snapshot}", hint="see the shelf's history")
        return {snapshot}

    # For the doctor

    def findings(self, *, deep: bool, advance: Advance | None) -> Iterator[Finding]:
        index = self._index()
        said = f"{len(index.snapshots)} snapshots, {len(index.branches)} branches"
        yield Finding(Level.OK, "index", said, "", self.name)
        if deep:
            yield self._look(index, advance)

    def _look(self, index: Index, advance: Advance | None) -> Finding:
        missing = []
        for snapshot in sorted(index.snapshots):
            try:
                files = self.library.files(snapshot)
            except NotFound:
                missing.append(snapshot)
                continue
            if advance is not None:
                advance(sum(map(len, files.values())))
        if missing:
            lost = Corrupt(f"{len(missing)} snapshots are not whole: {abbreviate(missing)}")
            hint = "restore them from a backup"
            return Finding(Level.PROBLEM, "objects", lost.message, hint, self.name, lost.exit_code)
        return Finding(
            Level.OK, "objects", "everything that snapshots need is there", "", self.name
        )


class ShelfOpener(FindsStores):
    """What is registered: opens one shelf, and finds all of them in a folder."""

    def __call__(self, location: str) -> ShelfStore:
        return ShelfStore(location)

    def find_all(self, location: str) -> Iterable[str]:
        url = normalize(location)
        folders, _ = ObjectStorage.open(url).folders("")
        for folder in sorted(folders):
            found = url_of(url, folder)
            try:
                ShelfStore(found).check()
            except NotFound:
                continue
            except ReclaimError:
                # It is a shelf, and whoever opens it is told what is wrong.
                pass
            yield found


OPENER = ShelfOpener()
