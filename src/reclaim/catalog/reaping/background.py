"""Reaper in the background of an open catalog. Its code is loaded for the first round."""

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
    """Rounds of the reaper over every repository with ``hard_delete=on``."""

    def __init__(self, database: Database, storage: Storage, clock: Clock, home: Home) -> None:
        self._database = database
        self._storage = storage
        self._clock = clock
        self._home = home
        self._stopped = False

    def rounds(self) -> Iterator[Reaped | ReclaimError]:
        """Run a round over all repositories; an error in a repository does not stop the others."""
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
        """Run a round in the background, logging errors."""
        for outcome in self.rounds():
            if isinstance(outcome, ReclaimError):
                log.warning("online delete failed: %s", outcome)

    def stop(self) -> None:
        """Stop a round after its current batch."""
        self._stopped = True
