"""The context of a plan: the store, the engine, and where the plan goes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from reclaim.engine.base import Engine
from reclaim.engine.tasks.parts import Opener, Place
from reclaim.ids import age_by_id
from reclaim.run.plan.plan_document import OF_RUNS
from reclaim.run.record.stages import Stages
from reclaim.safety import SAFETY
from reclaim.storage import Storage
from reclaim.stores.base import Store
from reclaim.stores.observation import Margins


@dataclass(frozen=True, slots=True)
class PlanContext:
    """The subject of one attempt at a plan; nothing of it changes on the way."""

    store: Store
    engine: Engine
    run: str
    place: Place
    """The folder of the plan."""
    margins: Margins
    opener: Opener
    stages: Stages
    started_at: datetime
    young: YoungRuns

    @property
    def storage(self) -> Storage:
        """The storage of the plan."""
        return self.opener(self.place.url)

    @property
    def own_storage(self) -> Storage:
        """The storage of the store."""
        return self.opener(self.store.storage.url)

    @property
    def work(self) -> Place:
        """The folder for files that only the making of the plan needs."""
        return self.place.below("work")

    def is_skipped(self, folder: str) -> bool:
        """Whether a folder is not listed: the plan's own, or the folder of a run that is young."""
        return folder.rstrip("/") == self.place.prefix.rstrip("/") or self.young.has(folder)

    def tidy(self, *folders: str) -> None:
        """Remove folders of the plan."""
        storage = self.storage
        for folder in folders:
            for stored in list(storage.list(self.place.at(folder))):
                storage.delete(stored.address)


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
