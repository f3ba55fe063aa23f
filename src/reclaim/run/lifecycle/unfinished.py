"""Lifecycle runs that have promoted what they take, and were cut off before all of it was taken.

For readers it is gone already, and no other run can claim it. So whoever runs next finishes it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from reclaim.engine.base import Engine
from reclaim.engine.tasks.parts import Opener, open_storage
from reclaim.errors import NotFound, PlanRefused
from reclaim.model import Run, RunState
from reclaim.run import plan_file
from reclaim.run.applied import Applied
from reclaim.run.apply import apply_plan
from reclaim.run.exclusion import EXCLUDE
from reclaim.run.removal import DELETE, Removal, removal_of
from reclaim.run.stages import Watcher
from reclaim.stores.abilities import KnowsExpired
from reclaim.stores.base import Store

log = logging.getLogger(__name__)

UNFINISHED = (RunState.STARTED, RunState.STOPPED, RunState.PARTIAL)


def find_unfinished(store: Store) -> Iterator[Run]:
    """The runs whose claims are promoted and that did not come to their end, the oldest first.

    Not one that was begun to be undone or purged: that is to be finished.
    """
    if not isinstance(store, KnowsExpired):
        return
    promoted = store.expired_by()
    for run in reversed(store.runs()):
        if run.id in promoted and run.state in UNFINISHED and not (run.undoing or run.purging):
            yield run


def finish_unfinished(
    store: Store,
    engine: Engine,
    *,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> list[Applied]:
    """Finish every such run in the way that it was begun; returns what each came to.

    One whose plan is not there any more is left, and told of: what it has not deleted stays where
    it is, and an undo can bring back what it moved to quarantine.
    """
    finished = []
    for run in list(find_unfinished(store)):
        removal: Removal = removal_of(run) or DELETE
        globs = [str(glob) for glob in run.summary.get(EXCLUDE) or ()]
        try:
            place, planned = plan_file.find(opener(run.place), run.place)
        except (NotFound, PlanRefused) as error:
            log.warning("lifecycle run %s cannot be finished: %s", run.id, error)
            continue
        finished.append(
            apply_plan(
                store,
                engine,
                place,
                planned=planned,
                removal=removal,
                exclude=globs,
                watcher=watcher,
                opener=opener,
            )
        )
    return finished
