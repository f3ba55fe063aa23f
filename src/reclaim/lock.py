"""A lock with an expiry, renewed by its holder.

Executors cannot be fenced by the keeper of the lock. So tasks deleting for the holder stop
``REQUEST`` before the expiry, and a takeover waits until ``REQUEST`` after it: by then every
request sent in time has ended.

For the same reason, a holder that ends while its tasks may still be running does not release the
lock. It lets the lock expire as soon as the deadline of the tasks allows, and no sooner.
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
"""Longest duration of a request to the storage."""
RENEWAL = SAFETY.lock_renewal
"""Interval between renewals of the lock."""
TASKS = "tasks"
"""The owner of a lock whose holder has ended, while its tasks may still be running."""


@dataclass(frozen=True, slots=True)
class LockState:
    """A taken lock: its run, its holder, and its expiry without a renewal."""

    run: str
    free_at: datetime
    process: Process | None
    """The process holding it; None if unknown."""
    left_to_tasks: bool
    """Whether its holder has ended, while tasks may still be running."""
    version: str
    """Changes with every change of the lock."""

    def why_not_released(self) -> str:
        """Return the reason why a process may still delete under this lock; empty if none does.

        Unknown holders refuse: only processes proved to have ended on this machine count.
        """
        if self.process is None:
            return "the lock does not name the process holding it"
        return self.process.why_not_ended()

    def check_release(self) -> None:
        if why := self.why_not_released():
            raise Refused(
                f"the lock of run {self.run} is not released: {why}",
                hint=f"unless it is renewed, it is free at {self.free_at:%F %T} UTC",
                run=self.run,
                free_at=instant_text(self.free_at),
            )


def lock_taken(what: str, state: LockState) -> Conflict:
    """Return the error for a lock taken by another run."""
    details = {"run": state.run, "free_at": instant_text(state.free_at)}
    free = f"the lock is free at {state.free_at:%F %T} UTC"
    if not state.why_not_released():
        return Conflict(
            f"run {state.run} has died and still holds the lock of this {what}: "
            f"{state.process} has ended",
            hint=f"release it: reclaim lock release STORE; otherwise {free}",
            **details,
        )
    if state.left_to_tasks:
        return Conflict(
            f"run {state.run} has ended, and may still be working on executors until "
            f"{state.free_at:%F %T} UTC",
            hint="the lock is free then; run it again",
            **details,
        )
    by = "" if state.process is None else f" ({state.process})"
    return Conflict(
        f"run {state.run} is working on this {what}{by}",
        hint=f"wait for the run to end; if it has died, {free}",
        **details,
    )


def lock_changed() -> Conflict:
    """Return the error for releasing a lock changed since it was read."""
    return Conflict("the lock was renewed or taken just now; nothing was released")


class TimedLock(ABC):
    """A lock held by this process and renewed in the background.

    ``_sure_until`` counts from before the request that took or renewed it, and so errs on the early
    side.
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
        """Return the time left to send deletes under this lock."""
        return self._sure_until - REQUEST - self._clock.now()

    def check(self) -> None:
        """Raise ``LockLost`` once another process may take the lock."""
        if self.remaining() <= timedelta(0):
            raise LockLost(
                f"run {self.run_id} could not renew its lock in time and stopped"
                f"{self._renewal.failure_text()}",
                hint="repeat the apply to finish the rest",
            )

    @contextmanager
    def lend(self, longest: timedelta, ended: Callable[[], bool]) -> Iterator[timedelta]:
        """Lend the lock to tasks for the time given to the block.

        If the block fails, tasks may go on until their deadline, unless ``ended`` knows they do
        not. Then the lock is not released.
        """
        if Process.current() != self._process:
            # The lock's record must show work on other machines under this lock.
            self._process = Process.current()
            self.renew()
        before = self._tasks_until
        time = min(longest, self.remaining())
        deadline = self._clock.now() + time
        self.used = True
        # Noted before they start: the note exists whatever interrupts the run from here on.
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
        """Return when the lock is free if its holder ends now; None for at once."""
        until = self._tasks_until
        return None if until is None else until + REQUEST + REQUEST

    @abstractmethod
    def renew(self) -> None:
        """Hold the lock for its whole length from now on."""

    @abstractmethod
    def give_back(self) -> None:
        """Release the lock for others at once."""

    @abstractmethod
    def leave(self, time: timedelta) -> None:
        """Let the lock expire after some time, without an owner to renew it."""

    def end(self) -> None:
        """Release the lock, or leave it to tasks possibly still running."""
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
    """Return the error for a decision based on the unfinished history edit of a run."""
    return Conflict(
        f"run {run_id} has edited the history, and may still revert the edit",
        hint=f"wait for the run to end; if it has died, revert its edit: reclaim undo {run_id}",
        run=run_id,
    )
