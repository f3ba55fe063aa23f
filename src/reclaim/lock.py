"""A lock with an expiry: for how long its holder may rely on it, and how it is renewed.

Executors cannot be fenced by whoever keeps the lock. So whoever deletes for the holder stops
``REQUEST`` before the expiry, and the lock is taken over only ``REQUEST`` after it: a request that
was sent in time has ended by then.

For the same reason a holder that ends while tasks may still be at work does not give the lock back.
It lets it expire: as soon as their deadline allows, and no sooner.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from reclaim.clock import Clock
from reclaim.errors import Conflict, LockLost, ReclaimError
from reclaim.model import instant_text
from reclaim.renewal import Renewal
from reclaim.safety import SAFETY

log = logging.getLogger(__name__)

LENGTH = SAFETY.lock_length
REQUEST = SAFETY.request
RENEWAL = SAFETY.lock_renewal
"""The longest that one request to the storage may take."""
TASKS = "tasks"
"""The owner of a lock whose holder has ended, while its tasks may still be at work."""


def taken(what: str, run_id: str, owner: str, free_at: datetime) -> Conflict:
    """The error for whoever wants a lock that a run has."""
    told = {"run": run_id, "free_at": instant_text(free_at)}
    if owner == TASKS:
        return Conflict(
            f"run {run_id} has ended, and may still be working on executors until "
            f"{free_at:%F %T} UTC",
            hint="the lock is free then; run it again",
            **told,
        )
    return Conflict(
        f"run {run_id} is working on this {what}",
        hint=f"wait for it; if it has died, the lock is free at {free_at:%F %T} UTC",
        **told,
    )


class TimedLock(ABC):
    """A lock that this process holds and renews in the background.

    ``_sure_until`` is counted from before the request that took or renewed it, so that it errs on
    the early side.
    """

    def __init__(self, clock: Clock, run_id: str, sure_until: datetime) -> None:
        self._clock = clock
        self.run_id = run_id
        self._sure_until = sure_until
        self._tasks_until: datetime | None = None
        self.used = False
        self._renewal = Renewal(self, f"the lock of run {run_id}")

    def remaining(self) -> timedelta:
        """For how long a delete may still be sent on the strength of this lock."""
        return self._sure_until - REQUEST - self._clock.now()

    def check(self) -> None:
        """Fail once the lock may be taken over by someone else."""
        if self.remaining() <= timedelta(0):
            raise LockLost(
                f"run {self.run_id} could not renew its lock in time and stopped"
                f"{self._renewal.why()}",
                hint="apply it again; it finishes the rest",
            )

    @contextmanager
    def lent(self, longest: timedelta, ended: Callable[[], bool]) -> Iterator[timedelta]:
        """Let tasks work on the strength of the lock, for the time that the block is given.

        When the block fails, some of them may go on until their time is over, unless ``ended``
        knows that none does. Then the lock is not given back.
        """
        before = self._tasks_until
        time = min(longest, self.remaining())
        deadline = self._clock.now() + time
        self.used = True
        # Noted before they start: whatever interrupts this from here on, the note is there.
        self._tasks_until = deadline if before is None else max(before, deadline)
        try:
            yield time
        except BaseException:
            if ended():
                self._tasks_until = before
            raise
        self._tasks_until = before

    @property
    def free_at(self) -> datetime | None:
        """When the lock is free if its holder ends now; None for at once."""
        until = self._tasks_until
        return None if until is None else until + REQUEST + REQUEST

    @abstractmethod
    def renew(self) -> None:
        """Hold the lock for its whole length from now on."""

    @abstractmethod
    def give_back(self) -> None:
        """Let others have the lock at once."""

    @abstractmethod
    def leave(self, time: timedelta) -> None:
        """Let the lock expire after some time, without an owner who could renew it."""

    def end(self) -> None:
        """Give the lock back, or leave it to tasks that may still be at work."""
        try:
            if self._tasks_until is None:
                self.give_back()
            else:
                self.leave(self._tasks_until + REQUEST - self._clock.now())
        except ReclaimError as error:
            free_in = LENGTH + REQUEST
            log.warning("the lock of run %s is free in %s: %s", self.run_id, free_in, error)

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Renew it in the background while the block runs."""
        self._renewal.start(RENEWAL)
        try:
            yield
        finally:
            self._renewal.close()


def edit_in_progress(run_id: str) -> Conflict:
    """The error for whoever would decide on top of the edit of a run."""
    return Conflict(
        f"run {run_id} has edited the history, and may still take that back",
        hint=f"wait until it has ended; if it died, take its edit back: reclaim undo {run_id}",
        run=run_id,
    )
