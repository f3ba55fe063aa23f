"""Purge: delete quarantined objects after their period, in a separate run.

Before the first object is deleted, the run record says that a purge has begun. From then on the run
promises nothing and cannot be undone: wherever a purge stops, other runs can continue (decision
0031).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.base import Engine
from reclaim.engine.tasks.deleting import DELETED, FAILED, RESTORED, Deleter, Outcome
from reclaim.engine.tasks.parts import Opener, Part, Place, open_storage, read_part, write_part
from reclaim.engine.tasks.tally import OBJECTS
from reclaim.errors import Corrupt, LockLost, Partial, ReclaimError, Refused
from reclaim.ids import new_run_id, new_uid
from reclaim.run.lifecycle.settling import has_claims, settle
from reclaim.run.plan.checks import check_budget, check_clock
from reclaim.run.record.interrupted import cause_of, lock_left, report_as_partial, sentence_of
from reclaim.run.record.journal import Journal
from reclaim.run.record.stages import Silent, Stages, Watcher
from reclaim.run.sweep.removal import (
    UndoableRemoval,
    note_undo_begun,
    quarantine_handle,
    removal_of,
)
from reclaim.run.sweep.sweep import sweep
from reclaim.run_record import PURGE, Action, Phase, Quarantine, RecordedPurge, RunCounts, RunRecord
from reclaim.storage import Storage
from reclaim.stores.abilities import ReportsRereferenced
from reclaim.stores.base import Held, HeldLock, Store
from reclaim.stores.format import QUARANTINE
from reclaim.stores.observation import BUDGET

SHOWN = 3
"""Number of failed objects named in a message."""


@dataclass(slots=True)
class Purged:
    """Result of a purge, over the runs whose quarantine it ended."""

    run: str
    runs: list[str] = field(default_factory=list)
    outcome: Outcome = field(default_factory=Outcome)
    collected: int = 0
    skipped: dict[str, Exception] = field(default_factory=dict)
    """Runs not purged completely, with the errors."""
    failures: dict[str, Sequence[str]] = field(default_factory=dict)
    """First few errors of objects that could not be deleted or restored."""

    @property
    def failed(self) -> int:
        return self.outcome.counts[FAILED]

    def record(self, started: RunRecord, phase: Phase) -> RunRecord:
        """Record of the purge with its result."""
        objects, size = self.outcome.only(DELETED)
        counts = RunCounts(
            objects,
            size,
            self.failed,
            collected=self.collected,
            rescued=self.outcome.counts[RESTORED],
        )
        ended = RecordedPurge(tuple(self.runs), tuple(self.skipped))
        return replace(started, phase=phase, counts=counts, purge=ended)

    def summary(self) -> dict[str, Any]:
        objects, size = self.outcome.only(DELETED)
        return {
            "runs": list(self.runs),
            "objects": objects,
            "bytes": size,
            "rescued": self.outcome.counts[RESTORED],
            "failed": self.failed,
            "collected": self.collected,
            "skipped": list(self.skipped),
        }


def find_due(
    store: Store, older_than: timedelta | None, run_id: str | None = None
) -> Sequence[RunRecord]:
    """Runs to purge: those whose period is over, those older than given, or the given run. Purges
    already begun continue.

    Oldest quarantine first: a later run may hold objects an earlier run needs.
    """
    now = store.clock.now()
    ending = [
        (run.quarantine.since or run.started_at, run)
        for run in store.runs()
        if run.quarantine
        and run.allows(Action.PURGE)
        and (_is_due(run.quarantine, now, older_than) if run_id is None else run.id == run_id)
    ]
    return [run for _, run in sorted(ending, key=lambda dated: dated[0])]


def _is_due(quarantine: Quarantine, now: datetime, older_than: timedelta | None) -> bool:
    if quarantine.purge_begun is not None:
        return True
    if older_than is None:
        return quarantine.until is not None and quarantine.until <= now
    return quarantine.since is not None and quarantine.since <= now - older_than


def purge(
    store: Store,
    engine: Engine,
    *,
    older_than: timedelta | None = None,
    run_id: str | None = None,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> Purged | None:
    """End the quarantine of the runs to purge, or of the given run; None if there are none."""
    if not find_due(store, older_than, run_id):
        return None
    done = Purged(new_run_id(store.clock.now()))
    place = Place(*store.place(done.run))
    stages = Stages(done.run, watcher or Silent(), noun=store.noun)
    # Spark starts before the lock is taken.
    engine.start()
    with (
        store.lock(done.run) as held,
        report_as_partial(done.run, held.lock, lambda: held.lock.used, again="purge again"),
    ):
        store.check()
        # A fast clock would end every quarantine.
        check_clock(store, store.storage, place)
        held.begin()
        now = store.clock.now()
        record = RunRecord(done.run, PURGE, Phase.STARTED, now, str(place))
        held.start(record)
        try:
            ending = find_due(store, older_than, run_id)
            for run in ending:
                with stages.stage(f"purge {run.id}", unit=OBJECTS) as purging:
                    before = done.summary()["objects"]
                    try:
                        _purge(store, held, engine, run, place.below(run.id), done, opener)
                    except LockLost:
                        raise
                    except Exception as error:
                        # The other runs continue. The error of a single run is raised unchanged.
                        if len(ending) == 1:
                            raise
                        done.skipped[run.id] = error
                    purging.facts["objects"] = done.summary()["objects"] - before
            phase = Phase.PARTIAL if done.failed or done.skipped else Phase.DONE
            held.finish(done.record(record, phase))
        except BaseException as error:
            with suppress(Exception):
                partial = done.record(record, Phase.PARTIAL)
                held.finish(replace(partial, error=cause_of(error)))
            if not isinstance(error, Exception) or not (done.runs or done.skipped):
                raise
            raise _partial(done, place, held.lock, stopped=error) from error
        if done.failed or done.skipped:
            raise _partial(done, place, held.lock)
    return done


def _partial(
    done: Purged, place: Place, lock: HeldLock, *, stopped: Exception | None = None
) -> Partial:
    """Error with the remaining objects by run, and the results so far."""
    sentences = [
        f"run {run} was not purged: {sentence_of(error)}" for run, error in done.skipped.items()
    ]
    errors = [*done.skipped.values(), *([] if stopped is None else [stopped])]
    hints = [error.hint for error in errors if isinstance(error, ReclaimError) and error.hint]
    if done.failed:
        named = [reason for reasons in done.failures.values() for reason in reasons][:SHOWN]
        more = done.failed - len(named)
        others = f" and {more} more" if more else ""
        sentences.append(
            f"{done.failed} objects of run {', '.join(done.failures)} could not be deleted: "
            f"{'; '.join(named)}{others}; the journal at {place} lists all"
        )
        hints.append("inspect these files, and move files changed or added by others")
    if stopped is not None:
        sentences.append(f"run {done.run} was interrupted: {sentence_of(stopped)}")
    prefix = f"purged {len(done.runs)} runs; " if done.runs else ""
    again = "then purge again" if hints else "purge again"
    hint = "; ".join([*dict.fromkeys(hints), again, *lock_left(done.run, lock)])
    causes = {
        run: {"kind": cause_of(error), "message": sentence_of(error)}
        for run, error in done.skipped.items()
    }
    failures = {run: list(reasons) for run, reasons in done.failures.items()}
    return Partial(
        prefix + "; ".join(sentences), hint=hint, **done.summary(), causes=causes, failures=failures
    )


def _purge(
    store: Store,
    held: Held,
    engine: Engine,
    run: RunRecord,
    place: Place,
    done: Purged,
    opener: Opener,
) -> None:
    removal = removal_of(run)
    assert removal is not None
    storage = opener(place.url)
    journal = Journal(storage, place, place, known={})
    removal.check_reversible(store)
    try:
        rows = removal.quarantined(store, engine, run, place.below("work"), opener)
    except (Refused, Corrupt) as error:
        # The error concerns only this run, which is unchanged.
        done.skipped[run.id] = error
        return
    ending = _Ending(store, held, engine, run, removal, journal, place, done, opener)
    try:
        if not ending.take(rows):
            return
    finally:
        # Also if it stopped between two waves.
        done.outcome.add(journal.total())
    run = ending.run
    if run.unfinished and has_claims(store, run.id):
        # The run can no longer be finished or undone: its remaining objects are usable again.
        run = _note_begun(store, held, run)
        note_undo_begun(store, run.id, store.clock.now())
        settled = settle(store, held, engine, run.id, place=place.below("settling"), opener=opener)
        if settled.unknown:
            raise Partial(
                f"{settled.unknown} objects claimed by run {run.id} could not be looked up; the "
                f"journal at {place} has the errors",
                hint=f"purge it again: reclaim purge STORE --run {run.id}",
                released=settled.released,
                failed=settled.unknown,
            )
    done.collected += quarantine_handle(held).forget(run.id)
    held.finish(replace(run, phase=Phase.PURGED, purged_by=done.run))
    done.runs.append(run.id)


@dataclass(slots=True)
class _Ending:
    """End of a run's quarantine: objects referenced again are restored, the others are deleted.

    No wave of deletes begins later than ``BUDGET`` after the references were read.
    """

    store: Store
    held: Held
    engine: Engine
    run: RunRecord
    removal: UndoableRemoval
    journal: Journal
    place: Place
    done: Purged
    opener: Opener
    asked_at: datetime | None = None
    so_far: str = "nothing"

    def take(self, rows: Sequence[Part]) -> bool:
        """Restore and delete objects. Return whether all succeeded."""
        unneeded = self._unneeded(rows)
        if unneeded and not self._failed():
            self.run = _note_begun(self.store, self.held, self.run)
            self.so_far = "some"
            purger = self.removal.purger(self.store, self.run)
            self._sweep(purger, unneeded, renewed=self._still_unneeded)
        return not self._failed()

    def _failed(self) -> bool:
        return self.run.id in self.done.failures

    def _unneeded(self, rows: Sequence[Part]) -> Sequence[Part]:
        """Restore objects referenced again; return the others."""
        store, run = self.store, self.run
        self.asked_at = store.clock.now()
        needed = (
            frozenset(store.needed(run.id, self.engine))
            if isinstance(store, ReportsRereferenced)
            else frozenset()
        )
        referenced, others = (
            _split(self.opener(self.place.url), rows, needed, self.place.below("work"))
            if needed
            else ((), rows)
        )
        if referenced:
            self._sweep(self.removal.restorer(store, run, self.opener), referenced)
        if self._failed():
            return ()
        so_far = f"{self.so_far} of run {run.id} was deleted"
        check_budget(store, self.held.lock, self.asked_at, so_far=so_far)
        return others

    def _still_unneeded(self, rows: Sequence[Part]) -> Sequence[Part]:
        assert self.asked_at is not None
        if self.store.clock.now() - self.asked_at <= BUDGET:
            return rows
        return self._unneeded(rows)

    def _sweep(
        self,
        deleter: Deleter,
        parts: Sequence[Part],
        *,
        renewed: Callable[[Sequence[Part]], Sequence[Part]] | None = None,
    ) -> None:
        outcome = sweep(
            self.store,
            self.engine,
            self.held.lock,
            deleter,
            candidates=parts,
            kind=QUARANTINE,
            journal=self.journal,
            place=self.place,
            storage=self.opener(self.place.url),
            renewed=renewed,
        )
        if outcome.counts[FAILED]:
            self.done.failures[self.run.id] = self.journal.failures(SHOWN)


def _note_begun(store: Store, held: Held, run: RunRecord) -> RunRecord:
    """Record the start of the purge, before the first object is deleted."""
    if run.purging:
        return run
    begun = run.purge_begun(store.clock.now())
    held.finish(begun)
    return begun


def _split(
    storage: Storage, rows: Sequence[Part], needed: frozenset[str], place: Place
) -> tuple[Sequence[Part], Sequence[Part]]:
    """Split objects into those referenced again and the others."""
    referenced: list[Part] = []
    others: list[Part] = []
    for part in rows:
        table = read_part(storage, part)
        kept = pc.is_in(table.column("address"), pa.array(sorted(needed), pa.string()))
        for parts, mask in ((referenced, kept), (others, pc.invert(kept))):
            if (selected := table.filter(mask)).num_rows:
                written = write_part(storage, place.at(f"{new_uid()}.parquet"), selected)
                parts.append(replace(written, group=QUARANTINE))
    return referenced, others
