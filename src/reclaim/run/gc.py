"""Plan and apply in one go, for every kind of run. What a scheduler runs."""

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
from reclaim.run.lifecycle.done_before import DoneBefore
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
    """The result of plan and apply in one go. Without ``applied`` there was nothing to collect."""

    plan: WrittenPlan | None
    applied: Applied | None
    note: str = ""
    """Why nothing was planned."""


def collect(
    store: Store,
    engine: Engine,
    options: PlanOptions,
    asked: RunRequest = COLLECT_ALL,
    *,
    removal: Removal = DELETE,
    limits: Limits = NO_LIMITS,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> Collected:
    """Plan and apply at once. Whatever stops it is raised: only a finished plan can be empty.

    An empty plan is not applied. It is recorded as a run that is done, so that one can see that
    the collector works. A plan that leaves a checkpoint is applied also when it is empty: the next
    run starts from there. A plan beyond the ``limits`` is refused, and stays to be reviewed.

    A lifecycle run that was cut off after it had promoted what it takes is finished before the
    next one, or it stops the next one; see ``unfinished``.
    """
    before = DoneBefore()
    if asked.kind is RunKind.LIFECYCLE:
        before = finish_unfinished(store, engine, limits=limits, watcher=watcher, opener=opener)
    with before.telling():
        store.clean()
        leftovers = asked.kind in (RunKind.COLLECT, RunKind.UNCOMMITTED)
        if leftovers and store.deleted and _is_done_with(store):
            return Collected(None, None)
        plan = plan_request(store, engine, options, asked, watcher=watcher, opener=opener)
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
            # What was planned a moment ago, whatever lies in its place by now.
            planned=made,
            digest=made.digest,
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
