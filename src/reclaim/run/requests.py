"""Requests: the kinds of runs, and the plan of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from reclaim.engine.tasks.parts import Opener, open_storage
from reclaim.run.lifecycle.rules import find_lifecycle, has_enabled_rule, has_rules
from reclaim.stores.base import Store

if TYPE_CHECKING:
    from reclaim.engine.base import Engine
    from reclaim.run.plan.planning import PlanOptions, WrittenPlan
    from reclaim.run.record.stages import Watcher


class RunKind(StrEnum):
    """The kind of a run, by the data that it takes."""

    COLLECT = "collect"
    """Everything unreferenced, with what expires by the rules."""
    HISTORY_ONLY = "history-only"
    """Nothing: what expires by the rules leaves the history, and no bytes are deleted."""
    UNCOMMITTED = "uncommitted"
    """What was uploaded and is in no commit."""
    LIFECYCLE = "lifecycle"
    """What the stored lifecycle rules match."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A kind of run with the options that only this kind has."""

    kind: RunKind = RunKind.COLLECT
    refs: Sequence[str] = ()
    """Of an edit of the history: only what these reach; everything if there are none."""
    branch: str | None = None
    """Of uncommitted data: that of this branch alone."""
    full: bool = False
    """Of uncommitted data and lifecycle rules: ignore checkpoints."""


COLLECT_ALL = RunRequest()


def plan_request(
    store: Store,
    engine: Engine,
    options: PlanOptions,
    asked: RunRequest = COLLECT_ALL,
    *,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> WrittenPlan:
    """Make the plan of a kind of run; changes nothing. No other kind is loaded."""
    match asked.kind:
        case RunKind.HISTORY_ONLY:
            from reclaim.run.plan.history_only import plan_history

            return plan_history(store, options, refs=asked.refs, watcher=watcher, opener=opener)
        case RunKind.UNCOMMITTED:
            from reclaim.run.uncommitted.planning import UncommittedOptions, plan_uncommitted

            how = UncommittedOptions(asked.full, asked.branch)
            return plan_uncommitted(store, engine, options, how, watcher=watcher, opener=opener)
        case RunKind.LIFECYCLE:
            from reclaim.run.lifecycle.planning import LifecycleOptions, plan_lifecycle

            rules = LifecycleOptions(find_lifecycle(store).policy, full=asked.full)
            return plan_lifecycle(store, engine, rules, options, watcher=watcher, opener=opener)
        case RunKind.COLLECT:
            from reclaim.run.plan.planning import make_plan

            return make_plan(store, engine, options, watcher=watcher, opener=opener)


def find_skip_reason(store: Store, asked: RunRequest, options: PlanOptions) -> str:
    """Why a kind of run has nothing to do in a store among many; "" if it may have."""
    match asked.kind:
        case RunKind.HISTORY_ONLY if store.deleted:
            return "it was deleted, and has no history"
        case RunKind.HISTORY_ONLY if options.policy.empty:
            return "no retention policy is stored"
        case RunKind.LIFECYCLE if not has_rules(store):
            return "no lifecycle rules are stored"
        case RunKind.LIFECYCLE if not has_enabled_rule(store):
            return "no lifecycle rule is enabled"
    return ""
