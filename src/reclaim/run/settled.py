"""Plans that leave nothing to do: empty ones, and those that were applied to their end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from reclaim.engine.tasks.deleting import DELETED, FAILED, MISSING, Outcome
from reclaim.engine.tasks.parts import Opener, Place, open_storage
from reclaim.engine.tasks.quarantine import QUARANTINED
from reclaim.model import PLAN_DIGEST, Run, RunState
from reclaim.run import plan_snapshots
from reclaim.run.admission import COLLECT, check_begun, check_plan
from reclaim.run.applied import FINISHED_AT, SPARED, UNPLANNED, Applied
from reclaim.run.edit_counts import EditCounts
from reclaim.run.exclusion import EXCLUDE, LeftOut
from reclaim.run.plan_document import PlanDocument
from reclaim.run.removal import Removal
from reclaim.run.trust import is_trusted
from reclaim.stores.base import Store


@dataclass(frozen=True, slots=True)
class Settled:
    """The result of a plan that needs no engine."""

    applied: Applied
    finished_at: datetime | None = None
    """When an earlier apply finished; None for an empty plan, or if that was not recorded."""
    before: bool = False
    """Whether an earlier apply did it."""


def is_empty(planned: PlanDocument, place: Place, opener: Opener = open_storage) -> bool:
    """Whether a plan deletes nothing and leaves the history as it is."""
    if planned.candidates or planned.dead or planned.deleted_refs:
        return False
    return not plan_snapshots.read(opener(place.url), planned.snapshots.part).reparent


def settle_plan(
    store: Store,
    place: Place,
    planned: PlanDocument,
    *,
    digest: str | None,
    removal: Removal,
    exclude: Sequence[str],
) -> Settled | None:
    """The result of a plan that leaves nothing to do, without an engine and a lock; None if there
    may be something. An empty plan is recorded as a run that is done."""
    check_plan(planned, store)
    removal.check(store, planned)
    trusted = is_trusted(store, planned, digest)
    run = store.find_run(planned.run)
    check_begun(run, removal, place, planned, exclude, trusted=trusted)
    if run is not None:
        if not _leaves_nothing(run, exclude):
            return None
        finished_at = run.summary.get(FINISHED_AT)
        return Settled(
            _applied_by(run, store, place),
            None if finished_at is None else datetime.fromisoformat(finished_at),
            before=True,
        )
    # Other plans leave a checkpoint for the next one.
    if not trusted or planned.uncommitted is not None or planned.lifecycle is not None:
        return None
    if not is_empty(planned, place):
        return None
    summary = {"objects": 0, "bytes": 0, PLAN_DIGEST: planned.digest}
    made = Run(planned.run, COLLECT, RunState.DONE, planned.started_at, summary, str(place))
    store.add_run(made)
    return Settled(_applied_by(made, store, place))


def _leaves_nothing(run: Run, exclude: Sequence[str]) -> bool:
    """Whether another apply of the plan of a run has nothing to do."""
    told = run.summary
    if run.state != RunState.DONE or run.undoing:
        return False
    if run.quarantine is not None:
        # Another apply starts the window anew, and finds again what damaged lists do not tell.
        return False
    if told.get("dropped") or told.get(SPARED):
        # What was live then, or was only compared, may go now.
        return False
    # An apply without these globs takes what was left out.
    return not told.get("excluded") or set(told[EXCLUDE]) == set(exclude)


def _applied_by(run: Run, store: Store, place: Place) -> Applied:
    """The result of a finished run, by its record."""
    told = run.summary
    outcome = Outcome(Counter(), Counter())
    taken = QUARANTINED if run.quarantine else DELETED
    for name, field in ((taken, "objects"), (MISSING, "missing"), (FAILED, "failed")):
        outcome.counts[name] = told.get(field, 0)
    outcome.sizes[taken] = told.get("bytes", 0)
    return Applied(
        run.id,
        place,
        outcome,
        told.get("dropped", 0),
        told.get("condemned", 0),
        told.get("collected", 0),
        run.quarantine.until if run.quarantine else None,
        store.noun,
        unplanned=told.get(UNPLANNED, 0),
        spared=told.get(SPARED, 0),
        edit=EditCounts.of_record(told),
        left_out=LeftOut(
            told.get(EXCLUDE) or (),
            told.get("excluded", 0),
            told.get("excluded_bytes", 0),
            told.get("excluded_list", ""),
        ),
        by_lifecycle_rules="lifecycle" in told,
    )
