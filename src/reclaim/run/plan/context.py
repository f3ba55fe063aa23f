"""The context of a plan: the store, the engine, and where the plan goes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from reclaim.engine.base import Engine
from reclaim.engine.tasks.parts import Opener, Place
from reclaim.run.plan.young_runs import YoungRuns
from reclaim.run.record.stages import Stages
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
