"""Calls of which a task remembers only what they return, or nothing at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

from reclaim.catalog import Catalog
from reclaim.catalog.reaping import obsolete_rows, reaper
from reclaim.catalog.reaping.reaper import Reaper
from reclaim.catalog.refs import committing, merging
from reclaim.catalog.staging import cleaner, entry_edits
from reclaim.engine import pipelines
from reclaim.run.plan import collection, history_only
from reclaim.run.plan import planning as plan
from reclaim.stores.catalog import CatalogStore
from tests.schedules.telling import tell
from tests.support.scheduler import current_task

RETURNING: list[tuple[Any, str]] = [
    (Reaper, "_check"),
    (Reaper, "_has_expired_work"),
    (Reaper, "_check_clock"),
    (Reaper, "_next"),
    (Reaper, "_note"),
    (CatalogStore, "check"),
    (CatalogStore, "observe"),
    (CatalogStore, "current_history"),
    (CatalogStore, "leases"),
    (pipelines, "expand"),
    (pipelines, "find"),
    (collection, "list_store"),
    (history_only, "check_clock"),
    *((plan, name) for name in ("check_clock", "find_protection", "hold_roots")),
]
"""They change nothing in memory."""
REPORTING: list[tuple[Any, str]] = [
    (cleaner, "clean"),
    (obsolete_rows, "remove"),
    (reaper, "expire_uploads"),
]
"""What they return is only reported: what they have seen makes no difference afterwards."""


@contextmanager
def forgetful() -> Iterator[None]:
    with ExitStack() as stack:
        for owner, name in RETURNING:
            stack.enter_context(patch.object(owner, name, _returns(getattr(owner, name))))
        for owner, name in REPORTING:
            stack.enter_context(patch.object(owner, name, _reports(getattr(owner, name))))
        # Who has lost twice could lose eight times: each time is like the one before.
        for module in (committing, merging, entry_edits):
            stack.enter_context(patch.object(module, "ATTEMPTS", 2))
        yield


def forgetting() -> AbstractContextManager[list[object]]:
    """What a task does that goes on with nothing in memory but what it puts into the list, and
    what its catalog remembers."""
    task = current_task()
    assert task is not None
    return task.forgetting()


def remembered_by(catalog: Catalog) -> list[object]:
    """What an open catalog remembers: its partitions, and the epochs that it has seen."""
    partitions = catalog._partitions
    known = [partitions.instance, partitions._open, partitions._last_opened]
    return [*known, partitions.epochs._newest]


def _returns(call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def forgetful(*args: Any, **options: Any) -> Any:
        task = current_task()
        if task is None:
            return call(*args, **options)
        with task.forgetting() as kept:
            result = call(*args, **options)
            kept.append(tell([result]))
        return result

    return forgetful


def _reports(call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def forgetful(*args: Any, **options: Any) -> Any:
        task = current_task()
        if task is None:
            return call(*args, **options)
        with task.forgetting(everything=True):
            return call(*args, **options)

    return forgetful
