"""An engine whose tasks outlive a call that failed, as those of Spark do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from reclaim.engine.local.engine import LocalEngine
from reclaim.engine.rows import Rows
from reclaim.engine.work.lines import Lines, Work
from reclaim.errors import ReclaimError, StorageUnavailable
from reclaim.run.apply.applied import Applied
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.purge.purge import Purged, purge
from reclaim.run.sweep.removal import DELETE, Removal
from reclaim.run.undo.undo_run import Undone, undo_run
from tests.collect.helpers.world import World, opening


class DetachedEngine(LocalEngine):
    """Fails in the sweep of a kind, whose tasks have done nothing yet and go on when asked to."""

    def __init__(
        self,
        world: World,
        kind: str,
        error: Callable[[], BaseException] = lambda: StorageUnavailable("an executor was lost"),
    ) -> None:
        super().__init__(lambda _url: world.storage, clock=world.clock)
        self._kind = kind
        self._error = error
        self._left: Callable[[], object] | None = None

    def run(self, step: str, rows: Rows, work: Work, *, shuffled: int = 0) -> Lines:
        if step != f"sweep {self._kind}" or self._left is not None:
            return super().run(step, rows, work, shuffled=shuffled)
        # The work has its deadline.
        self._left = partial(super().run, step, rows, work)
        raise self._error()

    def ended(self) -> bool:
        return False

    def go_on(self) -> None:
        """Let the tasks of the call that failed work, as far as their deadline allows."""
        assert self._left is not None
        self._left()


def apply(
    world: World, engine: LocalEngine, plan: WrittenPlan, removal: Removal = DELETE
) -> Applied:
    return apply_plan(
        world.store(), engine, plan.place, removal=removal, opener=opening(world.storage)
    )


def undo(world: World, engine: LocalEngine, run: str) -> Undone:
    return undo_run(world.store(), engine, run, opener=opening(world.storage))


def purge_all(world: World, engine: LocalEngine) -> Purged | None:
    return purge(world.store(), engine, older_than=timedelta(0), opener=opening(world.storage))


def cause_of(error: ReclaimError) -> Any:
    """What a partial end says of its cause."""
    return error.details["cause"]
