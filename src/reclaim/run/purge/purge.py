"""Purge: delete for good what runs have set aside, once its time is over. A run of its own.

Before the first of it is deleted, the record of its run says that a purge has begun. From then on
that run promises nothing and cannot be undone: wherever a purge stops, others go on (decision
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
from reclaim.run.record.interrupted import cause_of, lock_left, sentence_of, told_as_partial
from reclaim.run.record.journal import Journal
from reclaim.run.record.stages import Silent, Stages, Watcher
from reclaim.run.sweep.removal import UndoableRemoval, note_undo_begun, removal_of, setting_aside
from reclaim.run.sweep.sweep import sweep
from reclaim.run_record import PURGE, Action, Phase, Quarantine, RecordedPurge, RunCounts, RunRecord
from reclaim.storage import Storage
from reclaim.stores.abilities import ReportsRereferenced
from reclaim.stores.base import Held, HeldLock, Store
from reclaim.stores.format import QUARANTINE
from reclaim.stores.observation import BUDGET

SHOWN = 3
"""How many of the objects that could not be deleted a message names."""


@dataclass(slots=True)
class Purged:
    """The result of a purge, over the runs whose quarantine it ended."""

    run: str
    runs: list[str] = field(default_factory=list)
    outcome: Outcome = field(default_factory=Outcome)
    collected: int = 0
    skipped: dict[str, Exception] = field(default_factory=dict)
    """The runs that were not purged to their end, and why."""
    failures: dict[str, Sequence[str]] = field(default_factory=dict)
    """The first few reasons why objects of a run could not be deleted, or brought back."""

    @property
    def failed(self) -> int:
        return self.outcome.counts[FAILED]

    def record(self, started: RunRecord, phase: Phase) -> RunRecord:
        """The record of the purge with its result."""
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


def due(
    store: Store, older_than: timedelta | None, run_id: str | None = None
) -> Sequence[RunRecord]:
    """The runs whose quarantine is to end: by the time they were given, or by their age; or the
    one that somebody names, whatever its time. What a purge has begun, the next one goes on with.

    Who set something aside first comes first: a later run may have what the earlier one needs.
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


def _is_due(aside: Quarantine, now: datetime, older_than: timedelta | None) -> bool:
    if aside.purge_begun is not None:
        return True
    if older_than is None:
        return aside.until is not None and aside.until <= now
    return aside.since is not None and aside.since <= now - older_than


def purge(
    store: Store,
    engine: Engine,
    *,
    older_than: timedelta | None = None,
    run_id: str | None = None,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> Purged | None:
    """End the quarantine of the runs that are due, or of one; None when there is none."""
    if not due(store, older_than, run_id):
        return None
    done = Purged(new_run_id(store.clock.now()))
    place = Place(*store.place(done.run))
    stages = Stages(done.run, watcher or Silent())
    # A lock is not held while Spark starts.
    engine.start()
    with (
        store.lock(done.run) as held,
        told_as_partial(done.run, held.lock, lambda: held.lock.used, again="purge again"),
    ):
        store.check()
        # By a clock that is ahead every window would be over.
        check_clock(store, store.storage, place)
        held.begin()
        now = store.clock.now()
        record = RunRecord(done.run, PURGE, Phase.STARTED, now, str(place))
        held.start(record)
        try:
            ending = due(store, older_than, run_id)
            for run in ending:
                with stages.stage(f"purge {run.id}", unit=OBJECTS) as purging:
                    before = done.summary()["objects"]
                    try:
                        _purge(store, held, engine, run, place.below(run.id), done, opener)
                    except LockLost:
                        raise
                    except Exception as error:
                        # Whatever it is, the others go on. Alone, it is told as what it is.
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
    """Says what was left, of which runs, and what was purged in spite of it."""
    left = [
        f"run {run} was not purged: {sentence_of(error)}" for run, error in done.skipped.items()
    ]
    errors = [*done.skipped.values(), *([] if stopped is None else [stopped])]
    hints = [error.hint for error in errors if isinstance(error, ReclaimError) and error.hint]
    if done.failed:
        named = [reason for reasons in done.failures.values() for reason in reasons][:SHOWN]
        more = done.failed - len(named)
        rest = f" and {more} more" if more else ""
        left.append(
            f"{done.failed} objects of run {', '.join(done.failures)} could not be deleted: "
            f"{'; '.join(named)}{rest}; the journal at {place} names each"
        )
        hints.append("look at these files, and move away what others changed or put there")
    if stopped is not None:
        left.append(f"run {done.run} stopped on the way: {sentence_of(stopped)}")
    said = f"purged {len(done.runs)} runs; " if done.runs else ""
    again = "then purge again" if hints else "purge again"
    hint = "; ".join([*dict.fromkeys(hints), again, *lock_left(done.run, lock)])
    causes = {
        run: {"kind": cause_of(error), "message": sentence_of(error)}
        for run, error in done.skipped.items()
    }
    failures = {run: list(reasons) for run, reasons in done.failures.items()}
    return Partial(
        said + "; ".join(left), hint=hint, **done.summary(), causes=causes, failures=failures
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
        # It concerns this run alone, and nothing of it was touched.
        done.skipped[run.id] = error
        return
    ending = _Ending(store, held, engine, run, removal, journal, place, done, opener)
    try:
        if not ending.take(rows):
            return
    finally:
        # Also where something stopped it between two waves.
        done.outcome.add(journal.total())
    run = ending.run
    if run.unfinished and has_claims(store, run.id):
        # Nobody can finish or undo it any more: what it did not take is of use again.
        run = _note_begun(store, held, run)
        note_undo_begun(store, run.id, store.clock.now())
        settled = settle(store, held, engine, run.id, place=place.below("settling"), opener=opener)
        if settled.unknown:
            raise Partial(
                f"of what run {run.id} claimed, {settled.unknown} objects could not be asked for; "
                f"the journal at {place} says why",
                hint=f"purge it again: reclaim purge STORE --run {run.id}",
                released=settled.released,
                failed=settled.unknown,
            )
    done.collected += setting_aside(held).forget(run.id)
    held.finish(replace(run, phase=Phase.PURGED, purged_by=done.run))
    done.runs.append(run.id)


@dataclass(slots=True)
class _Ending:
    """The end of one run's quarantine: objects that something refers to come back, the rest goes.

    No wave of deletes begins later than ``BUDGET`` after the store was asked.
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
        """Bring back and delete objects; whether none of them failed."""
        away = self._unneeded(rows)
        if away and not self._failed():
            self.run = _note_begun(self.store, self.held, self.run)
            self.so_far = "some"
            purger = self.removal.purger(self.store, self.run)
            self._sweep(purger, away, renewed=self._still_unneeded)
        return not self._failed()

    def _failed(self) -> bool:
        return self.run.id in self.done.failures

    def _unneeded(self, rows: Sequence[Part]) -> Sequence[Part]:
        """Bring back what something refers to now; the rest."""
        store, run = self.store, self.run
        self.asked_at = store.clock.now()
        needed = (
            frozenset(store.needed(run.id, self.engine))
            if isinstance(store, ReportsRereferenced)
            else frozenset()
        )
        back, away = (
            _split(self.opener(self.place.url), rows, needed, self.place.below("work"))
            if needed
            else ((), rows)
        )
        if back:
            self._sweep(self.removal.restorer(store, run, self.opener), back)
        if self._failed():
            return ()
        so_far = f"{self.so_far} of run {run.id} was deleted"
        check_budget(store, self.held.lock, self.asked_at, so_far=so_far)
        return away

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
    """Note in a run's record that it is being purged, before the first object is deleted."""
    if run.purging:
        return run
    begun = run.purge_begun(store.clock.now())
    held.finish(begun)
    return begun


def _split(
    storage: Storage, rows: Sequence[Part], needed: frozenset[str], place: Place
) -> tuple[Sequence[Part], Sequence[Part]]:
    """Objects that something refers to again, and the rest."""
    back: list[Part] = []
    away: list[Part] = []
    for part in rows:
        table = read_part(storage, part)
        kept = pc.is_in(table.column("address"), pa.array(sorted(needed), pa.string()))
        for parts, mask in ((back, kept), (away, pc.invert(kept))):
            if (some := table.filter(mask)).num_rows:
                written = write_part(storage, place.at(f"{new_uid()}.parquet"), some)
                parts.append(replace(written, group=QUARANTINE))
    return back, away
