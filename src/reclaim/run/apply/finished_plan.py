"""Plans that need no apply: empty plans, and plans already applied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from reclaim.engine.tasks.deleting import DELETED, FAILED, MISSING, Outcome
from reclaim.engine.tasks.parts import Opener, Place, open_storage
from reclaim.engine.tasks.quarantine import QUARANTINED
from reclaim.run.apply.applied import Applied
from reclaim.run.apply.preconditions import check_begun, check_plan
from reclaim.run.apply.trust import is_trusted
from reclaim.run.plan import plan_snapshots
from reclaim.run.plan.plan_document import PlanDocument
from reclaim.run.sweep.removal import Removal
from reclaim.run_record import Phase, RunRecord
from reclaim.stores.base import Store


@dataclass(frozen=True, slots=True)
class FinishedPlan:
    """Result of a plan that needs no engine."""

    applied: Applied
    finished_at: datetime | None = None
    """End of the earlier apply; None for an empty plan, or if it was not recorded."""
    before: bool = False
    """Whether an earlier apply finished the plan."""


def is_empty(planned: PlanDocument, place: Place, opener: Opener = open_storage) -> bool:
    """Whether a plan deletes nothing and leaves the history unchanged."""
    if planned.candidates or planned.deleted_refs:
        return False
    if planned.dead and planned.history_only is None:
        return False
    return not plan_snapshots.read(opener(place.url), planned.snapshots.part).reparent


def finish_without_apply(
    store: Store,
    place: Place,
    planned: PlanDocument,
    *,
    digest: str | None,
    removal: Removal,
    exclude: Sequence[str],
) -> FinishedPlan | None:
    """Return the result of a plan that needs no apply, without an engine and a lock; None if an
    apply may have work to do. An empty plan is recorded as a finished run."""
    check_plan(planned, store)
    removal.check(store, planned)
    trusted = is_trusted(store, planned, digest)
    run = store.find_run(planned.run)
    check_begun(run, removal, place, planned, exclude, trusted=trusted)
    if run is not None:
        if not _leaves_nothing(run, exclude):
            return None
        return FinishedPlan(applied_by(run, store, place), run.finished_at, before=True)
    # Other plans leave a checkpoint for the next one.
    if not trusted or planned.uncommitted is not None or planned.lifecycle is not None:
        return None
    if not is_empty(planned, place):
        return None
    made = RunRecord(
        planned.run,
        planned.run_kind,
        Phase.DONE,
        planned.started_at,
        str(place),
        plan=planned.digest,
    )
    store.add_run(made)
    return FinishedPlan(applied_by(made, store, place))


def _leaves_nothing(run: RunRecord, exclude: Sequence[str]) -> bool:
    """Whether another apply of the run's plan has nothing to do."""
    if run.phase is not Phase.DONE:
        return False
    if run.quarantine is not None:
        # Another apply restarts the quarantine, and finds objects missing from damaged lists.
        return False
    if run.counts.dropped or run.edit.spared:
        # Objects that were live then may be deletable now.
        return False
    # An apply without these globs deletes the excluded objects.
    return not run.left_out.objects or set(run.left_out.globs) == set(exclude)


def applied_by(run: RunRecord, store: Store, place: Place) -> Applied:
    """Return the result of a finished run, from its record."""
    counts = run.counts
    taken = QUARANTINED if run.quarantine else DELETED
    outcome = Outcome(
        Counter({taken: counts.objects, MISSING: counts.missing, FAILED: counts.failed}),
        Counter({taken: counts.bytes}),
    )
    return Applied(
        run.id,
        place,
        outcome,
        counts.dropped,
        counts.condemned,
        counts.collected,
        run.quarantine.until if run.quarantine else None,
        store.noun,
        unplanned=run.edit.unplanned,
        spared=run.edit.spared,
        edit=run.edit.counts,
        left_out=run.left_out,
        by_lifecycle_rules=run.lifecycle is not None,
    )
