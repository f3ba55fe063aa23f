"""Retention and garbage collection for versioned data stores: plan, review, delete, undo.

    import reclaim

    with reclaim.open_store("sales") as store:
        plan = store.plan(reclaim.Policy(keep_last=30))
        print(plan.summary.objects, plan.summary.by_reason)
        run = plan.apply(quarantine="14d")
        run.undo()

The names in ``__all__`` and ``reclaim.errors`` are public.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reclaim import errors
    from reclaim.api.plan import Plan, PlanSummary, open_plan
    from reclaim.api.run import Run
    from reclaim.api.store import GcResult, OpenStore, list_stores, open_catalog, open_store
    from reclaim.catalog import Catalog
    from reclaim.errors import ReclaimError
    from reclaim.policy import Policy
    from reclaim.progress.gauge import Progress

__all__ = [
    "Catalog",
    "GcResult",
    "OpenStore",
    "Plan",
    "PlanSummary",
    "Policy",
    "Progress",
    "ReclaimError",
    "Run",
    "errors",
    "list_stores",
    "open_catalog",
    "open_plan",
    "open_store",
]
__version__ = "0.1.0"

_MODULES = {
    "Catalog": "catalog",
    "GcResult": "api.store",
    "OpenStore": "api.store",
    "Plan": "api.plan",
    "PlanSummary": "api.plan",
    "Policy": "policy",
    "Progress": "progress.gauge",
    "ReclaimError": "errors",
    "Run": "api.run",
    "list_stores": "api.store",
    "open_catalog": "api.store",
    "open_plan": "api.plan",
    "open_store": "api.store",
}
"""The module of each name, imported on first use to keep `reclaim --help` quick."""


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("reclaim.errors")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"reclaim.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
