"""Folders of runs that are so young that nothing in them may go: a plan need not list them.

Where runs are frequent there are many such folders, and of a run that is at work just now the files
come and go. The folder of an older run, or of one whose id tells no time, is listed.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from reclaim.ids import age_by_id
from reclaim.run.plan.plan_document import OF_RUNS
from reclaim.safety import SAFETY
from reclaim.stores.base import Store
from reclaim.stores.observation import Margins


class YoungRuns:
    """The runs of a store that have begun since the shortest margin of their files."""

    def __init__(self, store: Store, margins: Margins, now: datetime) -> None:
        self._store = store
        self._now = now
        kinds = store.format.margins.items()
        of_runs = (margins.age(margin) for kind, margin in kinds if kind in OF_RUNS)
        self._margin = min(of_runs, default=timedelta(0))

    def has(self, folder: str) -> bool:
        """Whether a folder is that of such a run."""
        folder = folder.rstrip("/")
        run_id = folder.rpartition("/")[2]
        _, place = self._store.place(run_id)
        if place.rstrip("/") != folder:
            return False
        age = age_by_id(run_id, self._now)
        # By another clock it may begin a little later than now.
        return age is not None and -SAFETY.clock_skew <= age < self._margin
