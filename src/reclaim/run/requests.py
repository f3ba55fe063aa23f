"""Run requests: the kinds of runs, and the function that plans each kind."""

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
    """Kind of a run, by the data it deletes."""

    COLLECT = "collect"
    """Unreferenced objects, and snapshots that expire under the rules."""
    HISTORY_ONLY = "history-only"
    """No objects: snapshots that expire under the rules leave the history."""
    UNCOMMITTED = "uncommitted"
    """Uploaded objects without a commit."""
    LIFECYCLE = "lifecycle"
    """Data matched by the stored lifecycle rules."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Kind of a run, with the options specific to this kind."""

    kind: RunKind = RunKind.COLLECT
    refs: Sequence[str] = ()
    """History edits: only snapshots reachable from these refs; empty for all refs."""
    branch: str | None = None
    """Uncommitted data: only this branch."""
    full: bool = False
    """Uncommitted data and lifecycle rules: ignore checkpoints."""


COLLECT_ALL = RunRequest()


def plan_request(
    store: Store,
    engine: Engine,
    options: PlanOptions,
    request: RunRequest = COLLECT_ALL,
    *,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> WrittenPlan:
    """Make the plan of a run. Read-only. Modules of other kinds are not loaded."""
    match request.kind:
        case RunKind.HISTORY_ONLY:
            from reclaim.run.plan.history_only import plan_history

            return plan_history(store, options, refs=request.refs, watcher=watcher, opener=opener)
        case RunKind.UNCOMMITTED:
            from reclaim.run.uncommitted.planning import UncommittedOptions, plan_uncommitted

            choices = UncommittedOptions(request.full, request.branch)
            return plan_uncommitted(store, engine, options, choices, watcher=watcher, opener=opener)
        case RunKind.LIFECYCLE:
            from reclaim.run.lifecycle.planning import LifecycleOptions, plan_lifecycle

            rules = LifecycleOptions(find_lifecycle(store).policy, full=request.full)
            return plan_lifecycle(store, engine, rules, options, watcher=watcher, opener=opener)
        case RunKind.COLLECT:
            from reclaim.run.plan.planning import make_plan

            return make_plan(store, engine, options, watcher=watcher, opener=opener)


def find_skip_reason(store: Store, request: RunRequest, options: PlanOptions) -> str:
    """Reason to skip a store, for commands that run on many stores; "" to run on it."""
    match request.kind:
        case RunKind.HISTORY_ONLY if store.deleted:
            return "it was deleted, and has no history"
        case RunKind.HISTORY_ONLY if options.policy.empty:
            return "no retention policy is stored"
        case RunKind.LIFECYCLE if not has_rules(store):
            return "no lifecycle rules are stored"
        case RunKind.LIFECYCLE if not has_enabled_rule(store):
            return "no lifecycle rule is enabled"
    return ""
