"""Background renewal of locks, leases and partitions, as long as their owner needs them.

A thread can be paused as long as the machine is. So no owner relies on renewals: it counts the time
itself, and stops if it was not renewed in time.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import Protocol

log = logging.getLogger(__name__)


class Renewable(Protocol):
    """A holder of something with an expiry."""

    def renew(self) -> None: ...


class Renewal:
    """A thread that calls its owner's ``renew`` at intervals, from ``start`` to ``close``.

    A failed renewal is tried again after the next interval. The thread does not keep its owner
    alive: it ends with an owner without references.
    """

    def __init__(self, owner: Renewable, what: str) -> None:
        self._what = what
        # The garbage collector may run while this very thread holds any lock. Setting an event
        # could then block; putting into such a queue never does.
        errands: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._errands = errands
        self._owner = weakref.ref(owner, lambda _: errands.put(None))
        self._thread: threading.Thread | None = None
        self._closed = False
        self.failure = ""
        """Reason for the failure of the last renewal; empty if it succeeded."""

    def start(self, interval: timedelta) -> None:
        """Renew at every interval from now on. No effect after a previous start or close."""
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(
                target=self._run, args=[interval], name=f"renewal of {self._what}", daemon=True
            )
            self._thread.start()

    def run_soon(self, errand: Callable[[], object]) -> None:
        """Run a function in the thread between two renewals. Safe to call during garbage
        collection."""
        self._errands.put(errand)

    def failure_text(self) -> str:
        """Return the end of a sentence about the failed renewal."""
        return f": {self.failure}" if self.failure else ""

    def close(self) -> None:
        """End the thread after its current work."""
        self._closed = True
        self._errands.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self, interval: timedelta) -> None:
        due = time.monotonic() + interval.total_seconds()
        while not self._closed:
            waiting = due - time.monotonic()
            if waiting <= 0:
                self._renew()
                due = time.monotonic() + interval.total_seconds()
                continue
            try:
                errand = self._errands.get(timeout=waiting)
            except Empty:
                continue
            if errand is None:
                return
            try:
                errand()
            except Exception:
                log.exception("a background task in the renewal of %s failed", self._what)
            # It may be the last reference to the owner.
            del errand

    def _renew(self) -> None:
        owner = self._owner()
        if owner is None:
            return
        try:
            owner.renew()
            self.failure = ""
        except Exception as error:
            # Only the text is kept: an error refers to everything at work, the owner included.
            self.failure = str(error) or type(error).__name__
            log.warning("%s was not renewed: %s", self._what, self.failure)
