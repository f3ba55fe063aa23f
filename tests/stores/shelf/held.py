"""A shelf whose lock is held.

What is condemned is withdrawn: its entry is moved to a part of the index that the library does not
know, so that nobody can refer to it any more, and back if it is released. Lists beside the shelf
say what is condemned; the index follows them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from reclaim.clock import Clock
from reclaim.model import Lease, Ref, RefKind, Snapshot, SnapshotId
from reclaim.run_record import RunRecord
from reclaim.stores.abilities import (
    Expiration,
    HeldExpiration,
    HeldQuarantine,
    HistorySeen,
    Restored,
)
from reclaim.stores.sidecar.condemned import Condemnation
from reclaim.stores.sidecar.held import HeldSidecar
from reclaim.stores.sidecar.lock import SidecarLock
from reclaim.stores.sidecar.sidecar import Sidecar
from tests.stores.shelf.format import ATTRIBUTES_FILE, SNAPSHOT
from tests.stores.shelf.library import (
    ATTRIBUTES,
    DEFAULT,
    SNAPSHOTS,
    Entry,
    Index,
    IndexChanged,
    Shelf,
)

WITHDRAWN = "withdrawn"
"""The key of the index that has the entries of condemned snapshots."""
PARENTS = "parents"
"""The key of the index that has the parents of snapshots that came back before all of them did."""


def withdrawn_in(index: Index) -> dict[SnapshotId, Entry]:
    entries = index.others.get(WITHDRAWN, {})
    return {SnapshotId(name): Entry.of(entry) for name, entry in entries.items()}


def refs_in(index: Index) -> tuple[Ref, ...]:
    branches = (
        Ref(name, RefKind.BRANCH, SnapshotId(tip), default=name == DEFAULT)
        for name, tip in index.branches.items()
    )
    tags = (Ref(name, RefKind.TAG, SnapshotId(tip)) for name, tip in index.tags.items())
    return (*branches, *tags)


def snapshots_in(entries: Mapping[SnapshotId, Entry]) -> tuple[Snapshot, ...]:
    return tuple(
        Snapshot(name, tuple(map(SnapshotId, one.parents)), one.written_at, message=one.message)
        for name, one in entries.items()
    )


@dataclass(frozen=True)
class HistoryRead:
    """The history of a shelf, as it was read at once."""

    snapshots: Sequence[Snapshot]
    refs: Sequence[Ref]
    busy: frozenset[str] = frozenset()
    returned: Sequence[Lease] = ()
    editor: str | None = None

    @property
    def count(self) -> int:
        return len(self.snapshots)


class HeldShelf(HeldSidecar, HeldExpiration, HeldQuarantine):
    """What is condemned, set aside and brought back are snapshots."""

    def __init__(self, lock: SidecarLock, sidecar: Sidecar, shelf: Shelf, clock: Clock) -> None:
        super().__init__(lock, sidecar.lists, sidecar.records, sidecar.leases)
        self._shelf = shelf
        self._clock = clock

    def begin(self) -> None:
        super().begin()
        self._follow_lists()

    def condemn(self, rules: Mapping[SnapshotId, str]) -> int:
        named = self._shelf.read().tips()
        named |= {lease.snapshot for lease in self._leases.valid(self._clock.now())}
        free = {one: rule for one, rule in rules.items() if one not in named}
        super().condemn(free)
        # A ref may have been made there before its entry was withdrawn.
        kept = self._follow_lists() & free.keys()
        if kept:
            super().release(kept)
        return len(free) - len(kept)

    def release(self, ids: Collection[SnapshotId]) -> None:
        super().release(ids)
        self._follow_lists()

    def abandon(self) -> None:
        super().abandon()
        self._follow_lists()

    def collect(self, ids: Collection[SnapshotId]) -> int:
        self._working()
        self._drop(self._condemned_by_others(ids, excluding=self._undoable()))
        return super().collect(ids)

    def forget(self, run_id: str) -> int:
        self._working()
        self._drop(self._lists.taken_by(run_id))
        return super().forget(run_id)

    # History

    def read_history(self) -> HistoryRead:
        index = self._shelf.read()
        entries = {SnapshotId(name): entry for name, entry in index.snapshots.items()}
        return HistoryRead(snapshots_in(entries), refs_in(index))

    def expire_by_library(self, expiration: Expiration, seen: HistorySeen) -> bool:
        cutoff = expiration.policy.default.cutoff(expiration.now)
        assert cutoff is not None
        self._working()
        branches = {ref.name: str(ref.snapshot) for ref in seen.refs if ref.kind is RefKind.BRANCH}
        tags = {ref.name: str(ref.snapshot) for ref in seen.refs if ref.kind is RefKind.TAG}
        try:
            self._shelf.expire(
                cutoff,
                delete_tags=expiration.delete_expired_tags,
                delete_branches=expiration.delete_expired_branches,
                seen_refs=(branches, tags),
            )
        except IndexChanged:
            return False
        return True

    def hold_released(
        self, run_id: str, ids: Collection[SnapshotId], until: datetime
    ) -> Collection[SnapshotId]:
        there = [one for one in ids if one in self._shelf.read().snapshots]
        self._leases.hold_returned(there, run_id, until)
        return there

    # The way back

    def restore(self, run_id: str, whole: Collection[SnapshotId], *, complete: bool) -> Restored:
        """Put snapshots back into the index, and hold them: the library's edit stays."""
        run = self._records.find(run_id)
        back = [one for one in self._lists.taken_by(run_id) if one in set(whole)]
        until = run.quarantine.until if run and run.quarantine else None
        # Each of them: the library may cut off below a tip what only a lease there would hold.
        end = self._leases.hold_returned(back, run_id, until)
        restored = super().restore(run_id, whole, complete=complete)
        if not back or not _edited_by_library(run):
            return restored
        left = (
            "the history, which the shelf's own library edited; leases hold what came back until "
            f"{end:%F %T} UTC, make a branch or a tag there"
        )
        return Restored(restored.snapshots, (*restored.left, left), restored.waits)

    def _after_restore(self, run_id: str, ids: Collection[SnapshotId]) -> None:
        self._follow_lists()

    def left_condemned(self) -> Mapping[SnapshotId, Mapping[str, str]]:
        address = self._shelf.address
        return {
            one: {SNAPSHOT: address(SNAPSHOTS, one), ATTRIBUTES_FILE: address(ATTRIBUTES, one)}
            for one in self._left_by_others()
        }

    # The index

    def _follow_lists(self) -> set[SnapshotId]:
        """Withdraw what is on a list, and put the rest back, in one write.

        Returns what is on a list and has a ref, and so was not withdrawn.
        """
        listed = {
            one
            for lists in self._lists.all().values()
            for state in Condemnation
            for one in lists.get(state, {})
        }
        named: set[SnapshotId] = set()

        def follow(index: Index) -> bool:
            nonlocal named
            named = listed.intersection(map(SnapshotId, index.tips()))
            return _withdraw(index, listed - named)

        self._shelf.change(follow)
        return named

    def _drop(self, ids: Collection[SnapshotId]) -> None:
        """Forget entries of snapshots whose files are gone."""

        def drop(index: Index) -> None:
            kept = {name: one for name, one in withdrawn_in(index).items() if name not in ids}
            index.others[WITHDRAWN] = {name: one.document() for name, one in kept.items()}

        self._shelf.change(drop)


def _withdraw(index: Index, listed: Collection[str]) -> bool:
    """Let an index have the entries that are on no list, and the others beside them; returns
    whether that changes it.

    Of what comes back, parents may be gone, or come later: then they are its parents again.
    """
    everything = dict(index.snapshots)
    everything.update((str(name), entry) for name, entry in withdrawn_in(index).items())
    stays = everything.keys() - set(listed)
    if stays == index.snapshots.keys():
        return False
    parents = dict(index.others.get(PARENTS, {}))
    parents |= {name: everything[name].parents for name in stays - index.snapshots.keys()}
    for name in parents.keys() & stays:
        # Unless the library has given it others since.
        if set(everything[name].parents) <= set(parents[name]):
            everything[name].parents = [one for one in parents[name] if one in stays]
    index.snapshots = {name: everything[name] for name in everything if name in stays}
    index.others[WITHDRAWN] = {
        name: everything[name].document() for name in everything if name not in stays
    }
    index.others[PARENTS] = {
        name: before
        for name, before in parents.items()
        if name in stays and not stays.issuperset(before)
    }
    return True


def _edited_by_library(run: RunRecord | None) -> bool:
    return run is not None and run.edit.by_library
