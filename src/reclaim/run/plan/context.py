"""The context of a plan: the store, the engine, and the folder of the plan."""

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
    """Inputs of a single attempt at a plan. Immutable."""

    store: Store
    engine: Engine
    run: str
    place: Place
    """Folder of the plan."""
    margins: Margins
    opener: Opener
    stages: Stages
    started_at: datetime
    young: YoungRuns

    @property
    def storage(self) -> Storage:
        """Storage of the plan."""
        return self.opener(self.place.url)

    @property
    def own_storage(self) -> Storage:
        """Storage of the store."""
        return self.opener(self.store.storage.url)

    @property
    def work(self) -> Place:
        """Folder for temporary files."""
        return self.place.below("work")

    def is_skipped(self, folder: str) -> bool:
        """Whether the listing skips a folder: the plan's own folder, or the folder of a young
        run."""
        return folder.rstrip("/") == self.place.prefix.rstrip("/") or self.young.has(folder)

    def tidy(self, *folders: str) -> None:
        """Delete folders of the plan."""
        storage = self.storage
        for folder in folders:
            for stored in list(storage.list(self.place.at(folder))):
                storage.delete(stored.address)


class YoungRuns:
    """Runs of a store younger than the shortest margin of run files."""

    def __init__(self, store: Store, margins: Margins, now: datetime) -> None:
        self._store = store
        self._now = now
        kinds = store.format.margins.items()
        of_runs = (margins.age(margin) for kind, margin in kinds if kind in OF_RUNS)
        self._margin = min(of_runs, default=timedelta(0))

    def has(self, folder: str) -> bool:
        """Whether a folder belongs to a young run."""
        folder = folder.rstrip("/")
        run_id = folder.rpartition("/")[2]
        _, place = self._store.place(run_id)
        if place.rstrip("/") != folder:
            return False
        age = age_by_id(run_id, self._now)
        # By another clock the run may begin slightly in the future.
        return age is not None and -SAFETY.clock_skew <= age < self._margin
