"""A store with a sidecar whose lock is held: lists record snapshots closed to new references.

Writers of the store do not read these lists; lease holders do. Lists are written only under the
lock, so a run that lost its lock cannot change the lists of its successor.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from reclaim.model import SnapshotId
from reclaim.run_record import Phase, RunRecord
from reclaim.stores.abilities import Restored
from reclaim.stores.base import Held
from reclaim.stores.sidecar.condemned import Condemnation, CondemnedLists, Rules
from reclaim.stores.sidecar.leases import SidecarLeases
from reclaim.stores.sidecar.lock import SidecarLock
from reclaim.stores.sidecar.records import Records

PROVISIONAL, CONDEMNED = Condemnation.PROVISIONAL, Condemnation.CONDEMNED
QUARANTINED = Condemnation.QUARANTINED


class HeldSidecar(Held):
    """Lists and records of a store, held by a run."""

    lock: SidecarLock

    def __init__(
        self,
        lock: SidecarLock,
        lists: CondemnedLists,
        records: Records,
        leases: SidecarLeases,
    ) -> None:
        self.lock = lock
        self._lists = lists
        self._records = records
        self._leases = leases

    def _working(self) -> str:
        """Id of the run, if it still holds the lock."""
        self.lock.check()
        return self.lock.run_id

    def begin(self) -> None:
        """Release the provisional entries of dead runs.

        Holding the lock implies that all other runs have ended.
        """
        self._working()
        self._lists.tidy()
        for run_id in self._lists.all():
            self._lists.write(run_id, {PROVISIONAL: {}})

    def condemn(self, rules: Mapping[SnapshotId, str]) -> int:
        run = self._working()
        self._lists.write(run, {PROVISIONAL: self._lists.of(run, PROVISIONAL) | dict(rules)})
        return len(rules)

    def release(self, ids: Collection[SnapshotId]) -> None:
        self._release(ids, ())

    def _release(self, ids: Collection[SnapshotId], reached: Collection[SnapshotId]) -> None:
        """Remove snapshots from the lists; condemned snapshots only if reached."""
        self._working()
        freed = set(ids)
        for run_id, lists in self._lists.all().items():
            marked, condemned = lists.get(PROVISIONAL, {}), lists.get(CONDEMNED, {})
            self._lists.write(
                run_id,
                {
                    PROVISIONAL: _without(marked, freed),
                    CONDEMNED: _without(condemned, {id for id in freed if id in reached}),
                },
            )

    def promote(self) -> int:
        run = self._working()
        marked = self._lists.of(run, PROVISIONAL)
        condemned = self._lists.of(run, CONDEMNED) | marked
        self._lists.write(run, {PROVISIONAL: {}, CONDEMNED: condemned})
        return len(marked)

    def abandon(self) -> None:
        self._lists.write(self._working(), {PROVISIONAL: {}})

    def collect(self, ids: Collection[SnapshotId]) -> int:
        """Remove condemned snapshots with deleted objects from the lists.

        Snapshots with objects quarantined by another run are skipped: that run can be undone.
        """
        self._working()
        return len(self._take(ids, excluding=self._undoable()))

    def _undoable(self) -> Sequence[str]:
        return [run.id for run in self._records.all() if run.quarantine]

    # Quarantine

    def set_aside(self, ids: Collection[SnapshotId]) -> int:
        """Record the quarantine of snapshots condemned or taken over by this run.

        Snapshots condemned by an ended run, and not taken over, cannot be restored and are removed.
        Snapshots of other undoable runs are skipped: an undo restores them.
        """
        run = self._working()
        lists = self._lists.of_run(run)
        condemned = lists.get(CONDEMNED, {})
        taken = {id: condemned[id] for id in ids if id in condemned}
        self._lists.write(
            run,
            {
                CONDEMNED: _without(condemned, taken),
                QUARANTINED: lists.get(QUARANTINED, {}) | taken,
            },
        )
        return len(taken) + self.collect([id for id in ids if id not in taken])

    def take_over(self, ids: Collection[SnapshotId]) -> int:
        """Assign snapshots left condemned by ended runs to this run."""
        run = self._working()
        excluding = {run, *self._undoable()}
        others = self._condemned_by_others(ids, excluding=excluding)
        self._lists.write(run, {CONDEMNED: self._lists.of(run, CONDEMNED) | others})
        # Added here before removal there: a snapshot is always on a list.
        self._take(others, excluding=excluding)
        return len(others)

    def _left_by_others(self) -> Collection[SnapshotId]:
        """Snapshots left condemned by runs unable to restore them.

        Only the store knows which of them are whole: see ``HeldQuarantine.left_condemned``.
        """
        excluding = {self._working(), *self._undoable()}
        return sorted(
            snapshot
            for run_id, lists in self._lists.all().items()
            if run_id not in excluding
            for snapshot in lists.get(CONDEMNED, {})
        )

    def _condemned_by_others(
        self, ids: Collection[SnapshotId], *, excluding: Collection[str]
    ) -> Rules:
        requested = set(ids)
        return {
            id: rule
            for run_id, lists in self._lists.all().items()
            if run_id not in excluding
            for id, rule in lists.get(CONDEMNED, {}).items()
            if id in requested
        }

    def _take(self, ids: Collection[SnapshotId], *, excluding: Collection[str] = ()) -> Rules:
        requested = set(ids)
        taken: Rules = {}
        for run_id, lists in self._lists.all().items():
            if run_id in excluding:
                continue
            listed = lists.get(CONDEMNED, {})
            if removed := {id: rule for id, rule in listed.items() if id in requested}:
                taken |= removed
                self._lists.write(run_id, {CONDEMNED: _without(listed, removed)})
        return taken

    def restore(self, run_id: str, whole: Collection[SnapshotId], *, complete: bool) -> Restored:
        """Remove restored snapshots from the lists of a run."""
        taken = self._lists.taken_by(run_id)
        back = [snapshot for snapshot in taken if snapshot in set(whole)]
        self._remove_restored(run_id, back)
        # Before the run ends: afterwards this update would never be made.
        self._after_restore(run_id, back)
        waits = [
            f"{snapshot}: some of its objects are missing"
            for snapshot in sorted(taken.keys() - set(back))
        ]
        if complete and not waits:
            self._end(run_id)
        return Restored(len(back), (), waits)

    def _remove_restored(self, run_id: str, ids: Collection[SnapshotId]) -> None:
        """Remove snapshots from the lists of a run, and from lists of later runs."""
        self._working()
        lists = self._lists.of_run(run_id)
        states = (CONDEMNED, QUARANTINED)
        self._lists.write(
            run_id, {state: _without(lists.get(state, {}), set(ids)) for state in states}
        )
        self._take(ids)

    def _after_restore(self, run_id: str, ids: Collection[SnapshotId]) -> None:
        """Update other data of the store for snapshots removed from the lists.

        If an undo dies before this step is complete, the undo is repeated and calls it again, with
        the remaining snapshots only. Implementations must therefore follow the lists, not only
        ``ids``.
        """

    def _end(self, run_id: str) -> None:
        if (run := self._records.find(run_id)) is not None:
            self.finish(replace(run, phase=Phase.UNDONE))

    def forget(self, run_id: str) -> int:
        """Remove a run's lists, and leases of an interrupted undo on their snapshots."""
        self._working()
        taken = self._lists.taken_by(run_id)
        # Before removal from the lists: afterwards these leases could not be identified.
        self._leases.release_returned(taken, run_id)
        self._lists.write(run_id, {CONDEMNED: {}, QUARANTINED: {}})
        return len(taken)

    # Records

    def start(self, run: RunRecord) -> None:
        self._working()
        self._records.start(run)

    def finish(self, run: RunRecord) -> None:
        self._working()
        self._records.finish(run)


def _without(rules: Rules, ids: Collection[SnapshotId]) -> Rules:
    return {id: rule for id, rule in rules.items() if id not in ids}
