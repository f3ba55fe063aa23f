"""A run of lifecycle rules in one go: plan and apply. What a scheduler runs."""

from __future__ import annotations

from reclaim.engine.base import Engine
from reclaim.engine.tasks.parts import Opener, open_storage
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.apply.limits import NO_LIMITS, Limits, review_hint
from reclaim.run.gc import Collected
from reclaim.run.lifecycle.planning import LifecycleOptions, plan_lifecycle
from reclaim.run.lifecycle.rules import find_lifecycle
from reclaim.run.lifecycle.unfinished import finish_unfinished
from reclaim.run.plan.planning import Plan, PlanOptions
from reclaim.run.record.stages import Watcher
from reclaim.run.sweep.removal import DELETE, Removal
from reclaim.stores.base import Store


def plan_stored_rules(
    store: Store,
    engine: Engine,
    options: PlanOptions,
    *,
    full: bool = False,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> Plan:
    """A plan by the rules that are stored with a store."""
    asked = LifecycleOptions(find_lifecycle(store).policy, full=full)
    return plan_lifecycle(store, engine, asked, options, watcher=watcher, opener=opener)


def run_lifecycle(
    store: Store,
    engine: Engine,
    options: PlanOptions,
    *,
    full: bool = False,
    removal: Removal = DELETE,
    limits: Limits = NO_LIMITS,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> Collected:
    """Plan by the stored rules and apply at once. Whatever stops it is raised.

    An empty plan is applied as well: the next run starts from what it leaves. A plan beyond the
    ``limits`` is refused, and stays to be reviewed. A run that was cut off after it had promoted
    what it takes is finished first, or it stops this one; see ``unfinished``.
    """
    before = finish_unfinished(store, engine, limits=limits, watcher=watcher, opener=opener)
    with before.telling():
        plan = plan_stored_rules(store, engine, options, full=full, watcher=watcher, opener=opener)
        limits.check(plan.document, hint=review_hint(plan.place))
        applied = apply_plan(
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
    return Collected(plan, applied)
