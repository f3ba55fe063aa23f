"""Expirations as a person makes them: a plan of the history alone, and its apply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from reclaim.catalog import Repository
from reclaim.engine.base import Engine
from reclaim.engine.local.engine import LocalEngine
from reclaim.ids import new_run_id
from reclaim.policy import Policy
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.plan.history_only import HistoryDecision, decide_history, plan_history
from reclaim.run.plan.planning import PlanOptions, WrittenPlan
from reclaim.run.undo.undo_edit import undo_edit
from reclaim.run_record import EXPIRE, Phase, RunRecord
from reclaim.stores.abilities import EditsHistory
from reclaim.stores.base import Store
from reclaim.stores.catalog import CatalogStore


class NoEngine(LocalEngine):
    """The engine of runs that need none."""

    def start(self) -> None:
        raise AssertionError("an expiration starts no engine")


def plan_expire(
    of: Repository | Store, policy: Policy, *, refs: Sequence[str] = (), **flags: Any
) -> WrittenPlan:
    """A plan of the history alone; ``flags`` say whether expired refs are deleted."""
    store = _store(of)
    options = PlanOptions(policy, **flags)
    return plan_history(store, options, refs=refs, opener=lambda _url: store.storage)


def apply_expire(
    of: Repository | Store, plan: WrittenPlan, *, engine: Engine | None = None
) -> RunRecord | None:
    """Apply a plan; None if that edited nothing."""
    store = _store(of)
    applied = apply_plan(store, engine or NoEngine(), plan.place, opener=lambda _url: store.storage)
    assert not applied.outcome.counts.total()
    assert not applied.condemned
    return store.find_run(applied.run) if applied.edit else None


def expire(
    of: Repository | Store, policy: Policy, *, refs: Sequence[str] = (), **flags: Any
) -> RunRecord | None:
    """Plan and apply; None if that edited nothing."""
    return apply_expire(of, plan_expire(of, policy, refs=refs, **flags))


def decide(
    of: Repository | Store, policy: Policy, *, refs: Sequence[str] = (), **flags: Any
) -> HistoryDecision:
    """What a plan would make of the history, in full."""
    return decide_history(_store(of), PlanOptions(policy, **flags), refs=refs)


def take_back(of: Repository | Store, run: str) -> Sequence[str]:
    """Undo an expiration; returns what had changed since and was left."""
    return undo_edit(_store(of), run)


def delete_refs(
    of: Repository | Store, *names: str, decided: Callable[[], object] = lambda: None
) -> RunRecord | None:
    """Delete refs as an expiration does, with ``decided`` after they are read; None if they had
    changed by then."""
    store = _store(of)
    run = RunRecord(new_run_id(store.clock.now()), EXPIRE, Phase.STARTED, store.clock.now())
    with store.lock(run.id) as held:
        assert isinstance(held, EditsHistory)
        held.begin()
        held.start(run)
        seen = held.read_history()
        decided()
        is_edited = held.edit_history({}, [ref for ref in seen.refs if ref.name in names], seen)
        held.finish(replace(run, phase=Phase.DONE if is_edited else Phase.STOPPED))
    return store.find_run(run.id) if is_edited else None


def _store(of: Repository | Store) -> Store:
    return CatalogStore(of._workspace) if isinstance(of, Repository) else of
