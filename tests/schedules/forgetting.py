"""Calls of which a task remembers only what they return, or nothing at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

from reclaim.catalog import Catalog
from reclaim.catalog.reaping import needless_rows, reaper
from reclaim.catalog.reaping.reaper import Reaper
from reclaim.catalog.refs import committing, merging
from reclaim.catalog.staging import cleaner, entry_edits
from reclaim.testing.scheduler import current_task

RETURNING: list[tuple[Any, str]] = [
    (Reaper, "_check"),
    (Reaper, "_is_something_over"),
    (Reaper, "_check_clock"),
    (Reaper, "_next"),
    (Reaper, "_note"),
]
"""They change nothing in memory."""
REPORTING: list[tuple[Any, str]] = [
    (cleaner, "clean"),
    (needless_rows, "remove"),
    (reaper, "expire_uploads"),
]
"""What they return is only reported: what they have seen makes no difference afterwards."""


@contextmanager
def forgetful() -> Iterator[None]:
    with ExitStack() as stack:
        for owner, name in RETURNING:
            stack.enter_context(patch.object(owner, name, _forgets(getattr(owner, name), False)))
        for owner, name in REPORTING:
            stack.enter_context(patch.object(owner, name, _forgets(getattr(owner, name), True)))
        # Who has lost twice could lose eight times: each time is like the one before.
        for module in (committing, merging, entry_edits):
            stack.enter_context(patch.object(module, "ATTEMPTS", 2))
        yield


@contextmanager
def remembering(catalog: Catalog) -> Iterator[list[object]]:
    """What a task does that goes on with nothing in memory but what it puts into the list.

    The catalog that it goes on with remembers its partitions, and the epochs that it has seen.
    """
    task = current_task()
    assert task is not None
    with task.forgetting() as kept:
        yield kept
        partitions = catalog._partitions
        kept += [partitions.instance, partitions._open, partitions._last_opened]
        kept += [partitions.epochs._newest]


def _forgets(call: Callable[..., Any], everything: bool) -> Callable[..., Any]:
    @wraps(call)
    def forgetful(*args: Any, **options: Any) -> Any:
        task = current_task()
        if task is None:
            return call(*args, **options)
        with task.forgetting(everything=everything) as kept:
            result = call(*args, **options)
            if not everything:
                kept.append(result)
        return result

    return forgetful
