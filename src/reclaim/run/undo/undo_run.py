"""Undo: restore quarantined objects. Bytes first, then all snapshots and refs at once.

Until the last step nothing refers to restored objects. The run record says that the undo has begun;
until it is finished, no other run deletes promised objects. A snapshot is restored only if it is
complete. Complete snapshots are restored even if others fail; the undo can then be repeated.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from reclaim.engine.base import Engine
from reclaim.engine.tasks.deleting import FAILED, RESTORED
from reclaim.engine.tasks.parts import Opener, Place, open_storage
from reclaim.engine.tasks.tally import OBJECTS
from reclaim.errors import NotFound, Partial, Refused
from reclaim.ids import new_uid
from reclaim.model import Lease, instant_text
from reclaim.run.expire.released import hold_released
from reclaim.run.lifecycle.giving_up import give_up
from reclaim.run.lifecycle.settling import settle
from reclaim.run.plan.checks import check_clock
from reclaim.run.record.interrupted import report_as_partial
from reclaim.run.record.journal import Journal
from reclaim.run.record.stages import Silent, Stages, Watcher
from reclaim.run.roots.interrupted_runs import can_be_given_up
from reclaim.run.sweep.removal import (
    UndoableRemoval,
    note_undo_begun,
    quarantine_handle,
    removal_of,
)
from reclaim.run.sweep.sweep import sweep
from reclaim.run.undo.completeness import find_whole
from reclaim.run.undo.undo_edit import edits_alone, undo_edit
from reclaim.run_record import ADOPT, EXPIRE, Action, RunRecord
from reclaim.stores.abilities import EditsHistory, Quarantines
from reclaim.stores.base import Held, Store
from reclaim.stores.findings import abbreviate
from reclaim.stores.format import QUARANTINE

SHOWN = 5
"""Number of failures named in a message."""


@dataclass(frozen=True, slots=True)
class Undone:
    """Result of an undo: restored objects, and those left."""

    run: str
    objects: int = 0
    bytes: int = 0
    snapshots: int = 0
    left: tuple[str, ...] = ()
    held: tuple[Lease, ...] = ()
    """Leases of the undo on snapshots without a ref."""
    released: int = 0
    """Objects of a lifecycle run at their original address, usable again without having been
    restored all together."""
    gone: int = 0
    """Objects deleted by a lifecycle run."""
    edited: RunRecord | None = None
    """The run, if only its history edit could be reverted."""
    given_up: bool = False
    """Whether an interrupted lifecycle run was cancelled and its remaining objects released."""

    @property
    def held_until(self) -> str:
        """Sentence on snapshots kept by leases alone, with the end of the leases; "" if none."""
        if not self.held:
            return ""
        end = min(lease.end for lease in self.held)
        named = abbreviate([lease.snapshot for lease in self.held])
        return (
            f"no branch or tag reaches {named}: leases hold it until {end:%F %T} UTC; make a "
            "branch or a tag there to keep it"
        )

    def summary(self) -> dict[str, Any]:
        return {
            "objects": self.objects,
            "bytes": self.bytes,
            "restored": self.snapshots,
            "left": list(self.left),
            "released": self.released,
            "gone": self.gone,
            "held": [
                {"snapshot": lease.snapshot, "lease": lease.id, "until": instant_text(lease.end)}
                for lease in self.held
            ],
        }


def undo_run(
    store: Store,
    engine: Engine,
    run_id: str,
    *,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> Undone:
    """Undo a run with a quarantine, or finish an interrupted undo."""
    if store.deleted:
        raise Refused(f"{store.name} was deleted and cannot be restored")
    before = store.find_run(run_id)
    if before is None:
        raise NotFound(f"there is no run {run_id} of {store.name}", hint="see `reclaim runs`")
    cancels = can_be_given_up(store, before)
    if not needs_engine(store, before):
        return Undone(run_id, left=tuple(undo_edit(store, run_id)), edited=before)
    if not cancels:
        check_undo(before)
    again = f"undo it again: reclaim undo {run_id}"
    # Spark starts before the lock is taken.
    engine.start()
    with (
        store.lock(run_id) as held,
        report_as_partial(run_id, held.lock, lambda: held.lock.used, again=again),
    ):
        run = store.find_run(run_id)
        if run is None:
            raise NotFound(f"there is no run {run_id}", hint="see `reclaim runs`")
        stages = Stages(run_id, watcher or Silent(), noun=store.noun)
        if cancels:
            settled = give_up(store, held, engine, run, stages, opener)
            return Undone(run_id, released=settled.released, gone=settled.gone, given_up=True)
        removal = check_undo(run)
        return _Undoing(store, held, engine, run, removal, stages).undo(opener)


def needs_engine(store: Store, run: RunRecord) -> bool:
    """Whether the undo of a run moves objects, instead of only reverting a history edit."""
    if can_be_given_up(store, run):
        return True
    return run.kind != EXPIRE and not edits_alone(run)


def check_undo(run: RunRecord) -> UndoableRemoval:
    """Return the quarantine removal of a run. Refuse a run without objects to restore."""
    if run.kind == ADOPT:
        raise Refused(
            f"run {run.id} registered partitions and deleted nothing: there is nothing to undo"
        )
    run.check(Action.UNDO)
    removal = removal_of(run)
    if removal is None:
        raise Refused(
            f"run {run.id} ({run.kind}) put nothing in quarantine: deleted objects cannot be "
            "restored",
            hint="apply with --quarantine to be able to undo a run",
        )
    return removal


class _Undoing:
    """A single undo, under the lock."""

    def __init__(
        self,
        store: Store,
        held: Held,
        engine: Engine,
        run: RunRecord,
        removal: UndoableRemoval,
        stages: Stages,
    ) -> None:
        assert isinstance(store, Quarantines)
        self._store: Store = store
        self._quarantine: Quarantines = store
        self._held = held
        self._engine = engine
        self._run = run
        self._removal = removal
        self._stages = stages

    def undo(self, opener: Opener) -> Undone:
        store, stage = self._store, self._stages.stage
        applied = Place(*store.place(self._run.id))
        own = applied.below("undo").below(new_uid())
        storage = opener(own.url)
        journal = Journal(storage, own, own, known={})
        with stage("check"):
            self._removal.check_reversible(store)
            store.check()
            check_clock(store, store.storage, own)
            self._held.begin()
            if not self._run.promoted and isinstance(self._held, EditsHistory):
                # Before the undo is recorded: afterwards the edit would count as made.
                self._held.roll_back()
        with stage("recall"):
            # Before the undo is recorded: afterwards nobody else may continue the run.
            rows = self._removal.quarantined(
                store, self._engine, self._run, own.below("work"), opener
            )
            self._begin()
        taken = sum(part.rows for part in rows)
        with stage("restore", unit=OBJECTS, total=taken) as restoring:
            outcome = sweep(
                store,
                self._engine,
                self._held.lock,
                self._removal.restorer(store, self._run, opener),
                candidates=rows,
                kind=QUARANTINE,
                journal=journal,
                place=own,
                storage=storage,
            )
            objects, size = outcome.only(RESTORED)
            failed = outcome.counts[FAILED]
            restoring.facts |= {"objects": objects, "failed": failed}
            failures = journal.failures(SHOWN) if failed else []
        with stage("verify") as verifying:
            whole = find_whole(
                store,
                self._engine,
                self._quarantine.taken(self._run.id),
                own.below("work"),
                not_back=journal.own_parts() if failed else (),
                quarantine=self._removal.aside(store, self._run.id),
                opener=opener,
            )
            verifying.facts["whole"] = len(whole)
        with stage("record"):
            self._held.lock.check()
            # Before the run counts as undone, when its promises end.
            held = hold_released(store, self._held, self._run)
            restored = quarantine_handle(self._held).restore(
                self._run.id, whole, complete=not failed
            )
            released = 0
            if failed or restored.waits:
                # Restored objects are usable at once, even if others failed.
                released = settle(
                    store,
                    self._held,
                    self._engine,
                    self._run.id,
                    place=own.below("settling"),
                    opener=opener,
                    failed=journal.own_parts(),
                    quarantine=self._removal.aside(store, self._run.id),
                ).released
        undone = Undone(
            self._run.id,
            objects,
            size,
            restored.snapshots,
            (*restored.left, *held),
            tuple(restored.held),
            released,
        )
        if failed or restored.waits:
            raise self._partial(undone, failed, failures, restored.waits)
        return undone

    def _begin(self) -> None:
        """Record the undo, before the first object is restored.

        Objects restored on a disk carry this time. No other process writes at this microsecond.
        """
        just_now = self._store.clock.now() - timedelta(seconds=1)
        now = just_now.replace(microsecond=secrets.randbelow(1_000_000))
        self._run = self._run.undo_begun(now)
        self._held.finish(self._run)
        # The note is for late tasks of an apply. It follows the record, so that no other apply
        # can rely on objects such a task puts back.
        note_undo_begun(self._store, self._run.id, now)

    def _partial(
        self, undone: Undone, failed: int, failures: Sequence[str], waits: Sequence[str]
    ) -> Partial:
        """Error for an incomplete undo; ``failures`` has the first few errors."""
        reasons = [*failures, *waits]
        again = f"undo it again: reclaim undo {undone.run}"
        if any(run.undoable and run.id != undone.run for run in self._store.runs()):
            again += "; if objects are missing, undo later runs with a quarantine first"
        return Partial(
            f"restored {undone.objects} objects and {undone.snapshots} {self._store.noun}s of run "
            f"{undone.run}, but {failed + len(waits)} could not be restored: "
            + "; ".join(reasons[:SHOWN]),
            hint="; ".join(filter(None, [again, undone.held_until])),
            **undone.summary(),
            waits=list(waits),
            failed=failed,
        )
