"""Collect in one go: clean, plan, apply. What a scheduler runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.base import Engine
from reclaim.engine.tasks.parts import Opener, open_storage
from reclaim.run.apply.applied import Applied
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.apply.finished_plan import is_empty
from reclaim.run.apply.limits import NO_LIMITS, Limits, review_hint
from reclaim.run.plan.plan_document import OF_RUNS
from reclaim.run.plan.planning import Plan, PlanOptions, make_plan
from reclaim.run.purge.orphans import protected_folders
from reclaim.run.record.stages import Watcher
from reclaim.run.sweep.removal import DELETE, Removal
from reclaim.run_record import Phase, RunRecord
from reclaim.stores.base import Store
from reclaim.stores.format import QUARANTINE


@dataclass(frozen=True, slots=True)
class Collected:
    """The result of a collection. Without ``applied`` there was nothing to collect."""

    plan: Plan | None
    applied: Applied | None


def collect(
    store: Store,
    engine: Engine,
    options: PlanOptions,
    *,
    removal: Removal = DELETE,
    limits: Limits = NO_LIMITS,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
    make: Callable[[], Plan] | None = None,
) -> Collected:
    """Plan and apply at once. Whatever stops it is raised: only a finished plan can be empty.
    ``make`` makes the plan, where it is made in another way than usual.

    An empty plan is not applied. It is recorded as a run that is done, so that one can see that
    the collector works. A plan beyond the ``limits`` is refused, and stays to be reviewed.
    """
    store.clean()
    if store.deleted and _is_done_with(store):
        return Collected(None, None)
    if make is not None:
        plan = make()
    else:
        plan = make_plan(store, engine, options, watcher=watcher, opener=opener)
    if is_empty(plan.document, plan.place, opener):
        made = plan.document
        where = str(plan.place)
        store.add_run(RunRecord(made.run, made.run_kind, Phase.DONE, made.started_at, where))
        return Collected(plan, None)
    limits.check(plan.document, hint=review_hint(plan.place))
    done = apply_plan(
        store,
        engine,
        plan.place,
        # What was planned a moment ago, whatever lies in its place by now.
        planned=plan.document,
        digest=plan.document.digest,
        removal=removal,
        watcher=watcher,
        opener=opener,
    )
    return Collected(plan, done)


def _is_done_with(store: Store) -> bool:
    """Whether a deleted store has nothing left but the records of what was deleted, and what runs
    have in quarantine that are still to be purged."""
    kept = protected_folders(store)
    collected = pa.array([kind for kind in OF_RUNS if kind != QUARANTINE], pa.string())
    for batch in store.storage.batches(store.format.prefix.rstrip("/")):
        addresses = batch.column("address")
        kinds = pc.struct_field(store.format.describe(addresses), "kind")
        stays = pc.is_in(kinds, value_set=collected)
        for folder in kept:
            stays = pc.or_(stays, pc.starts_with(addresses, folder))
        if not pc.all(stays, min_count=0).as_py():
            return False
    return True
