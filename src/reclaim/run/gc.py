"""Plan and apply in a single call, for every kind of run. Intended for schedulers."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.base import Engine
from reclaim.engine.tasks.parts import Opener, open_storage
from reclaim.run.apply.applied import Applied
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.apply.finished_plan import is_empty
from reclaim.run.apply.limits import NO_LIMITS, Limits, review_hint
from reclaim.run.lifecycle.earlier_runs import EarlierRuns
from reclaim.run.lifecycle.unfinished import finish_unfinished
from reclaim.run.plan.plan_document import OF_RUNS
from reclaim.run.plan.planning import PlanOptions, WrittenPlan
from reclaim.run.purge.orphans import protected_folders
from reclaim.run.record.stages import Watcher
from reclaim.run.requests import COLLECT_ALL, RunKind, RunRequest, plan_request
from reclaim.run.sweep.removal import DELETE, Removal
from reclaim.run_record import Phase, RunRecord
from reclaim.stores.base import Store
from reclaim.stores.format import QUARANTINE


@dataclass(frozen=True, slots=True)
class Collected:
    """Result of planning and applying in a single call. ``applied`` is None if the plan was
    empty."""

    plan: WrittenPlan | None
    applied: Applied | None
    note: str = ""
    """Reason why nothing was planned."""


def collect(
    store: Store,
    engine: Engine,
    options: PlanOptions,
    request: RunRequest = COLLECT_ALL,
    *,
    removal: Removal = DELETE,
    limits: Limits = NO_LIMITS,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> Collected:
    """Make a plan and apply it at once. Errors propagate; only a finished plan can be empty.

    An empty plan is not applied. It is recorded as a finished run, to show an operator the
    collector works. A plan that leaves a checkpoint is applied even if it is empty, because the
    next run starts from the checkpoint. A plan beyond the ``limits`` is refused and kept for
    review.

    A lifecycle run interrupted after its promotion is finished before the next run, or stops the
    next run; see ``unfinished``.
    """
    before = EarlierRuns()
    if request.kind is RunKind.LIFECYCLE:
        before = finish_unfinished(store, engine, limits=limits, watcher=watcher, opener=opener)
    with before.add_to_errors():
        store.clean()
        leftovers = request.kind in (RunKind.COLLECT, RunKind.UNCOMMITTED)
        if leftovers and store.deleted and _is_done_with(store):
            return Collected(None, None)
        plan = plan_request(store, engine, options, request, watcher=watcher, opener=opener)
        made = plan.document
        if not made.leaves_checkpoint and is_empty(made, plan.place, opener):
            where = str(plan.place)
            store.add_run(RunRecord(made.run, made.run_kind, Phase.DONE, made.started_at, where))
            return Collected(plan, None)
        limits.check(made, hint=review_hint(plan.place))
        done = apply_plan(
            store,
            engine,
            plan.place,
            # The plan made a moment ago, even if the file was replaced since.
            planned=made,
            digest=made.digest,
            removal=removal,
            watcher=watcher,
            opener=opener,
        )
    return Collected(plan, done)


def _is_done_with(store: Store) -> bool:
    """Whether a deleted store holds only records of its deletion and objects in quarantine that
    wait for a purge."""
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
