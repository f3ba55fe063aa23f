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
from dataclasses import dataclass
from datetime import datetime, timedelta

from reclaim.clock import Clock
from reclaim.errors import Conflict, LockLost, ReclaimError, Refused
from reclaim.model import instant_text
from reclaim.process import Process
from reclaim.renewal import Renewal
from reclaim.safety import SAFETY

log = logging.getLogger(__name__)

LENGTH = SAFETY.lock_length
REQUEST = SAFETY.request
RENEWAL = SAFETY.lock_renewal
"""The longest that one request to the storage may take."""
TASKS = "tasks"
"""The owner of a lock whose holder has ended, while its tasks may still be at work."""


@dataclass(frozen=True, slots=True)
class LockState:
    """A lock that is not free: its run, its holder, and when it is free without a renewal."""

    run: str
    free_at: datetime
    process: Process | None
    """The process that took it; None if that is not recorded."""
    left_to_tasks: bool
    """Whether its holder has given it up, while tasks may still be at work."""
    version: str
    """Changes with every change of the lock."""

    def why_not_released(self) -> str:
        """Why somebody may still delete on the strength of it; empty if nobody does.

        Whoever does not know refuses: only processes that this machine shows to have ended count.
        """
        if self.process is None:
            return "the lock does not tell which process holds it"
        return self.process.why_not_ended()

    def check_release(self) -> None:
        if why := self.why_not_released():
            raise Refused(
                f"the lock of run {self.run} is not released: {why}",
                hint=f"unless it is renewed, it is free at {self.free_at:%F %T} UTC",
                run=self.run,
                free_at=instant_text(self.free_at),
            )


def taken(what: str, state: LockState) -> Conflict:
    """The error for whoever wants a lock that a run has."""
    told = {"run": state.run, "free_at": instant_text(state.free_at)}
    free = f"the lock is free at {state.free_at:%F %T} UTC"
    if not state.why_not_released():
        return Conflict(
            f"run {state.run} has died and still holds the lock of this {what}: "
            f"{state.process} has ended",
            hint=f"release it: reclaim lock release STORE; otherwise {free}",
            **told,
        )
    if state.left_to_tasks:
        return Conflict(
            f"run {state.run} has ended, and may still be working on executors until "
            f"{state.free_at:%F %T} UTC",
            hint="the lock is free then; run it again",
            **told,
        )
    by = "" if state.process is None else f" ({state.process})"
    return Conflict(
        f"run {state.run} is working on this {what}{by}",
        hint=f"wait for it; if it has died, {free}",
        **told,
    )


def lock_changed() -> Conflict:
    """The error for whoever would release a lock that was changed since it was read."""
    return Conflict("the lock was renewed or taken just now; nothing was released")


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
        self._process = Process.current()
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
        if Process.current() != self._process:
            # The record of the lock has to tell that other machines work on the strength of it.
            self._process = Process.current()
            self.renew()
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
    def _process_text(self) -> str | None:
        return None if self._process is None else self._process.encode()

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
