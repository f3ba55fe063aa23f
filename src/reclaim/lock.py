"""A lock with an expiry: for how long its holder may rely on it, and how it is renewed.

Executors cannot be fenced by whoever keeps the lock. So whoever deletes for the holder stops
``REQUEST`` before the expiry, and the lock is taken over only ``REQUEST`` after it: a request that
was sent in time has ended by then.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from reclaim.clock import Clock
from reclaim.errors import LockLost, ReclaimError

log = logging.getLogger(__name__)

LENGTH = timedelta(minutes=10)
REQUEST = timedelta(minutes=1)
"""The longest that one request to the storage may take."""


class TimedLock(ABC):
    """A lock that this process holds and renews in the background.

    ``_sure_until`` is counted from before the request that took or renewed it, so that it errs on
    the early side.
    """

    def __init__(self, clock: Clock, run_id: str, sure_until: datetime) -> None:
        self._clock = clock
        self.run_id = run_id
        self._sure_until = sure_until
        self._stop = threading.Event()

    def remaining(self) -> timedelta:
        """For how long a delete may still be sent on the strength of this lock."""
        return self._sure_until - REQUEST - self._clock.now()

    def check(self) -> None:
        """Fail once the lock may be taken over by someone else."""
        if self.remaining() <= timedelta(0):
            raise LockLost(
                f"run {self.run_id} could not renew its lock in time and stopped",
                hint="apply it again; it finishes the rest",
            )

    @abstractmethod
    def renew(self) -> None:
        """Hold the lock for its whole length from now on."""

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Renew it in the background while the block runs."""
        renewer = threading.Thread(target=self._keep, name="reclaim-lock", daemon=True)
        renewer.start()
        try:
            yield
        finally:
            self._stop.set()
            renewer.join()

    def _keep(self) -> None:
        while not self._stop.wait((LENGTH / 4).total_seconds()):
            try:
                self.renew()
            except ReclaimError as error:
                # The next try may succeed; until then ``check`` stops the run in time.
                log.warning("the lock of run %s was not renewed: %s", self.run_id, error)
