"""The reaper at work in an open catalog. What it needs is loaded when its first round begins."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from reclaim.catalog.collection.clones.homes import Home
from reclaim.catalog.database.transactions import Database
from reclaim.clock import Clock
from reclaim.errors import ReclaimError
from reclaim.storage import Storage

if TYPE_CHECKING:
    from reclaim.catalog.reaping.reaper import Reaped

log = logging.getLogger(__name__)


class BackgroundReaper:
    """Rounds of the reaper through every repository that is told to delete online."""

    def __init__(self, database: Database, storage: Storage, clock: Clock, home: Home) -> None:
        self._database = database
        self._storage = storage
        self._clock = clock
        self._home = home
        self._stopped = False

    def rounds(self) -> Iterator[Reaped | ReclaimError]:
        """One round through all of them; an error of one does not keep it from the others."""
        from reclaim.catalog import settings
        from reclaim.catalog.reaping.reaper import Reaper

        reaper = Reaper(
            self._database,
            self._storage,
            self._clock,
            self._home,
            stopped=lambda: self._stopped,
        )
        for repo_uid in settings.with_hard_delete(self._database):
            if self._stopped:
                return
            try:
                yield reaper.reap(repo_uid)
            except ReclaimError as error:
                yield error

    def renew(self) -> None:
        """One round, of which nobody waits for the outcome."""
        for outcome in self.rounds():
            if isinstance(outcome, ReclaimError):
                log.warning("nothing was deleted online: %s", outcome)

    def stop(self) -> None:
        """End a round after the batch that it is at."""
        self._stopped = True
