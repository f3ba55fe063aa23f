"""Purge: delete for good what runs have set aside, once its time is over. A run of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from reclaim.catalog.addresses import new_uid
from reclaim.errors import Partial, ReclaimError
from reclaim.model import Run, RunState
from reclaim.run.journal import Journal
from reclaim.run.stages import Silent, Stages, Watcher
from reclaim.run.sweep import sweep
from reclaim.run.ways import way_of
from reclaim.stores.base import QUARANTINE, Collectable, HeldLock, Quarantines
from reclaim.tasks.deleting import FAILED, Outcome
from reclaim.tasks.engine import Engine
from reclaim.tasks.parts import Opener, Place, open_storage

PURGE = "purge"
"""The kind of run that this is."""


@dataclass(slots=True)
class Purged:
    """What a purge did, over the runs whose quarantine it ended."""

    run: str
    runs: list[str] = field(default_factory=list)
    outcome: Outcome = field(default_factory=Outcome)
    collected: int = 0

    @property
    def failed(self) -> int:
        return self.outcome.counts[FAILED]

    def summary(self) -> dict[str, Any]:
        return {
            "runs": list(self.runs),
            "objects": self.outcome.counts.total() - self.failed,
            "bytes": self.outcome.sizes.total() - self.outcome.sizes[FAILED],
            "failed": self.failed,
            "collected": self.collected,
        }


def due(store: Collectable, older_than: timedelta | None) -> Sequence[Run]:
    """The runs whose quarantine is to end: by the time they were given, or by their age."""
    now = store.clock.now()
    return [run for run in store.runs() if run.quarantine and _over(run, now, older_than)]


def _over(run: Run, now: datetime, older_than: timedelta | None) -> bool:
    if older_than is None:
        return run.until is not None and run.until <= now
    since = run.summary.get("since")
    return since is not None and datetime.fromisoformat(since) <= now - older_than


def purge(
    store: Collectable,
    engine: Engine,
    *,
    older_than: timedelta | None = None,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> Purged | None:
    """End the quarantine of the runs that are due; None when there is none."""
    if not due(store, older_than):
        return None
    done = Purged(new_uid())
    place = Place(*store.place(done.run))
    stages = Stages(done.run, watcher or Silent())
    with store.lock(done.run) as lock:
        store.check()
        store.begin(done.run)
        now = store.clock.now()
        store.start(Run(done.run, PURGE, RunState.STARTED, now, {}, str(place)))
        try:
            for run in due(store, older_than):
                with stages.stage(f"purge {run.id}") as purging:
                    before = done.summary()["objects"]
                    _purge(store, engine, lock, run, place.below(run.id), done, opener)
                    purging.facts["objects"] = done.summary()["objects"] - before
        except (ReclaimError, KeyboardInterrupt) as error:
            said = {"error": getattr(error, "kind", "interrupted")}
            store.finish(done.run, RunState.PARTIAL, done.summary() | said)
            raise
        state = RunState.PARTIAL if done.failed else RunState.DONE
        store.finish(done.run, state, done.summary())
    if done.failed:
        raise Partial(
            f"{done.failed} objects could not be deleted; the journal at {place} says why",
            hint="purge again",
            **done.summary(),
        )
    return done


def _purge(
    store: Collectable,
    engine: Engine,
    lock: HeldLock,
    run: Run,
    place: Place,
    done: Purged,
    opener: Opener,
) -> None:
    way = way_of(run)
    assert way is not None
    assert isinstance(store, Quarantines)
    outcome = sweep(
        store,
        engine,
        lock,
        way.away(store, run.id),
        candidates=way.rows(store, engine, run, place.below("work"), opener),
        kind=QUARANTINE,
        journal=Journal(opener(place.url), place.below("journals"), place),
        place=place,
        storage=opener(place.url),
    )
    done.outcome.add(outcome)
    if not outcome.counts[FAILED]:
        done.collected += store.forget(run.id)
        store.finish(run.id, RunState.PURGED, {**run.summary, "purged_by": done.run})
        done.runs.append(run.id)
