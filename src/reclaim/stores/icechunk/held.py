"""A repository under its lock, and the handle for spec 1, where new references to a snapshot cannot
be prevented: margins and a second observation protect it.

Lists beside the repository record condemned snapshots. See ``held_repo`` for spec 2.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from reclaim.errors import PlanRefused
from reclaim.history import build
from reclaim.model import Ref, SnapshotId
from reclaim.run_record import RunRecord
from reclaim.stores.abilities import (
    Expiration,
    HeldBackups,
    HeldExpiration,
    HeldQuarantine,
    HistorySeen,
    Restored,
)
from reclaim.stores.icechunk import history as histories
from reclaim.stores.icechunk.addresses import SNAPSHOTS
from reclaim.stores.icechunk.expiration import bound, predict_edit
from reclaim.stores.icechunk.format import OLD_BACKUP, SNAPSHOT, IcechunkFormat
from reclaim.stores.icechunk.history import IcechunkHistoryRead
from reclaim.stores.icechunk.library import expire_snapshots, load_library
from reclaim.stores.icechunk.observing import IcechunkObserver
from reclaim.stores.sidecar.held import HeldSidecar
from reclaim.stores.sidecar.lock import SidecarLock
from reclaim.stores.sidecar.sidecar import Sidecar
from reclaim.urls import url_of


class HeldIcechunk(HeldSidecar, HeldBackups, HeldExpiration, HeldQuarantine):
    """Handle of a repository under its lock, in either spec."""

    def __init__(self, lock: SidecarLock, sidecar: Sidecar, observer: IcechunkObserver) -> None:
        super().__init__(lock, sidecar.lists, sidecar.records, sidecar.leases)
        self._observer = observer

    @property
    def _format(self) -> IcechunkFormat:
        return self._observer.format

    def condemn(self, rules: Mapping[SnapshotId, str]) -> int:
        # It may have become read-only or been upgraded since the plan.
        self._observer.check()
        leased = {lease.snapshot for lease in self._leases.valid(self._observer.clock.now())}
        named = {ref.snapshot for ref in self._refs()} | leased
        free = {id: rule for id, rule in rules.items() if id not in named}
        super().condemn(free)
        return len(free)

    def promote(self) -> int:
        self._observer.check()
        return super().promote()

    def left_condemned(self) -> Mapping[SnapshotId, Mapping[str, str]]:
        return {
            id: {SNAPSHOT: self._format.address(SNAPSHOTS, id)} for id in self._left_by_others()
        }

    # History

    def read_history(self) -> IcechunkHistoryRead:
        return self._observer.current_history()

    @abstractmethod
    def _refs(self) -> Sequence[Ref]: ...

    def _are_refs_as_seen(self, seen: HistorySeen) -> bool:
        return set(self._refs()) == set(seen.refs)

    def _ask_library(self, expiration: Expiration) -> None:
        """Let the library expire snapshots."""
        library = load_library()
        self._working()
        expire_snapshots(
            library,
            url_of(self._format.root, self._format.name),
            bound(expiration),
            delete_tags=expiration.delete_expired_tags,
            delete_branches=expiration.delete_expired_branches,
        )

    def _flush(self, addresses: Sequence[str]) -> None:
        """Make the library's writes durable: snapshots released by them may be deleted next."""
        self._observer.storage.flush(addresses)

    def hold_released(
        self, run_id: str, ids: Collection[SnapshotId], until: datetime
    ) -> Collection[SnapshotId]:
        listed = self._listed()
        existing = [id for id in self._existing(ids) if id not in listed]
        self._leases.hold_returned(existing, run_id, until)
        return existing

    @abstractmethod
    def _existing(self, ids: Collection[SnapshotId]) -> Collection[SnapshotId]: ...

    def _listed(self) -> set[SnapshotId]:
        """Snapshots on any list."""
        return {
            id
            for lists in self._lists.all().values()
            for condemned in lists.values()
            for id in condemned
        }

    # Undo

    def restore(self, run_id: str, whole: Collection[SnapshotId], *, complete: bool) -> Restored:
        """Restore snapshots. They are held for the rest of the run's quarantine: the same rules
        would expire them again.
        """
        run = self._records.find(run_id)
        back = [id for id in self._lists.taken_by(run_id) if id in set(whole)]
        until = run.quarantine.until if run and run.quarantine else None
        self._leases.hold_returned(back, run_id, until)
        restored = super().restore(run_id, whole, complete=complete)
        not_reverted = self._left_of_edit(run_id, run)
        return replace(restored, left=(*restored.left, *not_reverted))

    def _has_edited(self, run_id: str, run: RunRecord | None) -> bool:  # noqa: ARG002
        return run is not None and run.edit.by_library

    @abstractmethod
    def _left_of_edit(self, run_id: str, run: RunRecord | None) -> Sequence[str]:
        """Parts of the run's edit of the history which were not reverted, in sentences."""


class HeldFiles(HeldIcechunk):
    """Handle of a repository of spec 1."""

    def release(self, ids: Collection[SnapshotId]) -> None:
        """Release snapshots, including condemned snapshots reached by a ref: writers do not read
        the lists.
        """
        self._release(ids, self._observer.last_reached)

    def free_kinds(self, kinds: Collection[str]) -> None:
        self._working()
        if OLD_BACKUP in kinds:
            raise PlanRefused(
                f"the plan names copies of `repo`, which {self._format.name} does not keep: the "
                "repository is of spec 1",
                hint="nothing was deleted; plan it again",
            )

    def expire_by_library(self, expiration: Expiration, seen: HistorySeen) -> bool:
        load_library()
        # Comparison and edit cannot be atomic.
        self._observer.check()
        if not self._are_refs_as_seen(seen):
            return False
        history = build(seen.snapshots, seen.refs)
        edited = predict_edit(history, expiration, spec=self._format.spec).reparent
        self._ask_library(expiration)
        self._flush([self._format.address(SNAPSHOTS, id) for id in edited])
        return True

    def _refs(self) -> Sequence[Ref]:
        return histories.read_refs(self._observer.storage, self._format.prefix)

    def _existing(self, ids: Collection[SnapshotId]) -> Collection[SnapshotId]:
        return [id for id in ids if self._observer.is_there(id)]

    def _left_of_edit(self, run_id: str, run: RunRecord | None) -> Sequence[str]:
        if not self._has_edited(run_id, run):
            return ()
        return (
            "the history, which Icechunk's library edited; leases hold the restored snapshots: "
            "create a branch or a tag there",
        )
