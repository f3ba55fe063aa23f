"""Undo: bring back what a run set aside. Bytes first, then all snapshots and refs at once.

Until the last step nothing refers to what came back, so that a crash at any point leaves objects
that nobody needs, and undoing it again goes on from there. A snapshot comes back only when
everything that it needs is there: a later run may have taken what it shared with others.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from reclaim.catalog.addresses import new_uid
from reclaim.errors import Conflict, NotFound, Partial, Refused
from reclaim.model import Run, RunState, SnapshotId
from reclaim.run.journal import Journal
from reclaim.run.stages import Silent, Stages, Watcher
from reclaim.run.sweep import sweep
from reclaim.run.ways import AsideWay, way_of
from reclaim.stores.base import QUARANTINE, Collectable, HeldLock, Quarantines
from reclaim.tasks.deleting import FAILED
from reclaim.tasks.engine import Engine
from reclaim.tasks.parts import Opener, Place, open_storage
from reclaim.tasks.reading import LIVE, tops_table


@dataclass(frozen=True, slots=True)
class Undone:
    """What an undo brought back, and what it left."""

    run: str
    objects: int
    bytes: int
    snapshots: int
    left: tuple[str, ...]

    def summary(self) -> dict[str, Any]:
        return {
            "objects": self.objects,
            "bytes": self.bytes,
            "restored": self.snapshots,
            "left": list(self.left),
        }


def undo_run(
    store: Collectable,
    engine: Engine,
    run_id: str,
    *,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> Undone:
    """Undo a run that set its objects aside, or the rest of an undo that was interrupted."""
    if store.deleted:
        raise Refused(f"{store.name} was deleted, and nothing of it can be used any more")
    with store.lock(run_id) as lock:
        run = store.find_run(run_id)
        if run is None:
            raise NotFound(f"there is no run {run_id}", hint="see `reclaim runs`")
        way = check_undo(run)
        return _Undoing(store, engine, run, way, lock, Stages(run_id, watcher or Silent())).undo(
            opener
        )


def check_undo(run: Run) -> AsideWay:
    """How a run set its objects aside; refused when there is nothing to bring back."""
    if run.state == RunState.UNDONE:
        raise Conflict(f"run {run.id} was undone already", hint="see `reclaim runs`")
    if run.state == RunState.PURGED:
        raise Refused(f"what run {run.id} had set aside was purged, and cannot be brought back")
    way = way_of(run)
    if way is None:
        raise Refused(
            f"run {run.id} is a {run.kind} that set nothing aside: what it deleted cannot be "
            "brought back",
            hint="apply with --quarantine to be able to undo it",
        )
    return way


class _Undoing:
    """One undo, under the lock."""

    def __init__(
        self,
        store: Collectable,
        engine: Engine,
        run: Run,
        way: AsideWay,
        lock: HeldLock,
        stages: Stages,
    ) -> None:
        assert isinstance(store, Quarantines)
        self._store = store
        self._snapshots: Quarantines = store
        self._engine = engine
        self._run = run
        self._way = way
        self._lock = lock
        self._stages = stages

    def undo(self, opener: Opener) -> Undone:
        store, stage = self._store, self._stages.stage
        applied = Place(*store.place(self._run.id))
        own = applied.below("undo").below(new_uid())
        journal = Journal(opener(own.url), applied.below("undo"), own)
        with stage("check"):
            store.check()
            store.begin(self._run.id)
        with stage("restore") as restoring:
            outcome = sweep(
                store,
                self._engine,
                self._lock,
                self._way.back(store, self._run.id),
                candidates=self._way.rows(
                    store, self._engine, self._run, own.below("work"), opener
                ),
                kind=QUARANTINE,
                journal=journal,
                place=own,
                storage=opener(own.url),
            )
            failed = outcome.counts.pop(FAILED, 0)
            outcome.sizes.pop(FAILED, 0)
            restoring.facts |= {"objects": outcome.counts.total(), "failed": failed}
            if failed:
                raise Partial(
                    f"{failed} objects could not be brought back; the journal at {own} says why",
                    hint=f"nothing else was changed; undo it again: reclaim undo {self._run.id}",
                )
        with stage("verify") as verifying:
            whole = self._whole(own.below("work"))
            verifying.facts["whole"] = len(whole)
        with stage("record"):
            self._lock.check()
            restored = self._snapshots.restore(self._run.id, whole)
        return Undone(
            self._run.id,
            outcome.counts.total(),
            outcome.sizes.total(),
            restored.snapshots,
            tuple(restored.left),
        )

    def _whole(self, place: Place) -> Collection[SnapshotId]:
        """The snapshots that the run took and that have everything they need."""
        taken = self._snapshots.taken(self._run.id)
        tops = {top: LIVE for top in taken.values() if top}
        if not tops:
            return list(taken)
        format = self._store.format
        units = list(format.units(self._store.storage))
        listed = self._engine.list(format, units, place.below("there"))
        broken = self._engine.incomplete(
            format, tops_table(tops, format.top), listed, place.below("tops")
        )
        return [found for found, top in taken.items() if top not in broken]
