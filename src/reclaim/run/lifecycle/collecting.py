"""A collection and a run of lifecycle rules in one go, each range read once.

The collection comes first, so that rules see only commits that stay. As it reads live ranges it
writes the index of lifecycle runs and finds candidates by that; the rules are then judged by the
same index, and read only ranges of commits that came meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from reclaim.engine import pipelines
from reclaim.engine.answers import Candidates, ContainerFiles
from reclaim.engine.base import Engine
from reclaim.engine.lifecycle import LifecycleIndex, LifecycleIndexRequest
from reclaim.engine.requests import FindRequest
from reclaim.engine.tasks.parts import Opener, open_storage
from reclaim.engine.uncommitted import DeadEntries, DeadRequest, UncommittedSearch
from reclaim.errors import InvalidInput
from reclaim.ids import new_run_id
from reclaim.run.apply.applied import Applied
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.apply.limits import NO_LIMITS, Limits, review_hint
from reclaim.run.gc import Collected, collect
from reclaim.run.lifecycle.planning import (
    IndexedBefore,
    LifecycleOptions,
    check_rules,
    find_edges,
    plan_lifecycle,
)
from reclaim.run.lifecycle.rules import find_lifecycle
from reclaim.run.lifecycle.unfinished import finish_unfinished
from reclaim.run.plan.decide import Decided
from reclaim.run.plan.planning import Plan, Planning, PlanOptions, record_plan
from reclaim.run.record.stages import Silent, Watcher
from reclaim.run.sweep.removal import DELETE, Removal
from reclaim.stores.abilities import TakesReferenced
from reclaim.stores.base import Store
from reclaim.stores.format import IndexesEntries
from reclaim.stores.observation import Observation


@dataclass(frozen=True, slots=True)
class CollectedByRules:
    """The results of both."""

    collected: Collected
    plan: Plan
    applied: Applied


class _IndexingPlanning(Planning):
    """A plan of a collection that leaves the index of the ranges that it read."""

    index = LifecycleIndex()
    _dead = DeadEntries()

    def _expand(self, seen: Observation, decided: Decided, named: pa.Table) -> ContainerFiles:
        containers = super()._expand(seen, decided, named)
        format, parts = self._store.format, containers.parts
        if containers.dead:
            place = self._place.below("work").below("dead")
            self._dead = self._engine.dead_entries(DeadRequest(format, parts, place))
        edges = find_edges(seen, containers.entries)
        self.index = self._engine.lifecycle_index(
            LifecycleIndexRequest(format, parts, edges, self._place.below("index"))
        )
        return containers

    def _find(self, request: FindRequest, seen: Observation) -> Candidates:  # noqa: ARG002
        search = UncommittedSearch(
            url=self._store.storage.url,
            index=(),
            fresh=self.index.parts,
            dead=self._dead.parts,
            carried=(),
            unlisted=frozenset(),
            below="",
            carry=self._place.below("carried"),
        )
        found = pipelines.find(self._engine, replace(request, search=search))
        found.read.entries = self.index.read.entries + self._listed_by_name(request)
        return found

    def _listed_by_name(self, request: FindRequest) -> int:
        """Entries of containers that were read to be expanded: the ranges that they list."""
        read = self.index.read
        return request.containers.entries - read.expected_entries


def has_rules(store: Store) -> bool:
    """Whether lifecycle rules are stored with a store."""
    return (
        not store.deleted
        and isinstance(store, TakesReferenced)
        and store.stored_lifecycle() is not None
    )


def has_enabled_rule(store: Store) -> bool:
    """Whether at least one of the lifecycle rules that are stored with a store is enabled."""
    return has_rules(store) and bool(find_lifecycle(store).policy.enabled_rules)


def collect_by_rules(
    store: Store,
    engine: Engine,
    options: PlanOptions,
    *,
    removal: Removal = DELETE,
    limits: Limits = NO_LIMITS,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> CollectedByRules:
    """Collect, and then take what the stored lifecycle rules match; see ``gc.collect``.

    A lifecycle run that was cut off after it had promoted what it takes is finished first, within
    the same ``limits``.
    """
    if not isinstance(store.format, IndexesEntries) or store.deleted:
        raise InvalidInput(f"{store.name} has no lifecycle rules", hint="leave --lifecycle out")
    policy = find_lifecycle(store).policy
    # Before anything is collected, and not after it.
    check_rules(store, policy)
    if options.place is not None or options.inventory is not None:
        raise InvalidInput(
            "--lifecycle makes two plans, by a listing of its own",
            hint="leave --out and --inventory out",
        )
    before = finish_unfinished(store, engine, limits=limits, watcher=watcher, opener=opener)
    watching = watcher or Silent()
    run_id = new_run_id(store.clock.now())
    planning = _IndexingPlanning(store, engine, options, run_id, None, watching, opener)

    def plan() -> Plan:
        return record_plan(store, planning.run())

    with before.telling():
        collected = collect(
            store,
            engine,
            options,
            removal=removal,
            limits=limits,
            watcher=watcher,
            opener=opener,
            make=plan,
        )
        if collected.applied is not None:
            before.add(collected.applied)
        assert collected.plan is not None
        indexed = IndexedBefore(planning.index, collected.plan.place.url)
        by_rules = plan_lifecycle(
            store,
            engine,
            LifecycleOptions(policy, indexed=indexed),
            PlanOptions(margins=options.margins, allowed_fraction=options.allowed_fraction),
            watcher=watcher,
            opener=opener,
        )
        limits.check(by_rules.document, hint=review_hint(by_rules.place))
        applied = apply_plan(
            store,
            engine,
            by_rules.place,
            planned=by_rules.document,
            digest=by_rules.document.digest,
            removal=removal,
            watcher=watcher,
            opener=opener,
        )
    return CollectedByRules(collected, by_rules, applied)
