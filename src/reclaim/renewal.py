"""Renewal in the background: of locks, leases and partitions, for as long as their owner needs it.

A thread can stand still for as long as the machine does. So nobody relies on being renewed: an
owner counts the time itself, and stops when it was not renewed in time.
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
    """A holder of something that expires."""

    def renew(self) -> None: ...


class Renewal:
    """A thread that calls its owner's ``renew`` at intervals, from ``start`` to ``close``.

    A renewal that fails is tried again after the next interval. The thread does not keep its owner
    alive: it ends with an owner that nobody refers to any more.
    """

    def __init__(self, owner: Renewable, what: str) -> None:
        self._what = what
        # Garbage can be collected while this very thread holds any lock. An event could not be
        # set then; such a queue can be put into at any time.
        errands: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._errands = errands
        self._owner = weakref.ref(owner, lambda _: errands.put(None))
        self._thread: threading.Thread | None = None
        self._closed = False
        self.failure = ""
        """Why the last renewal failed; empty if it did not."""

    def start(self, interval: timedelta) -> None:
        """Renew at every interval from now on; once started, or closed, it stays so."""
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(
                target=self._run, args=[interval], name=f"renewal of {self._what}", daemon=True
            )
            self._thread.start()

    def soon(self, errand: Callable[[], object]) -> None:
        """Let the thread do something between two renewals. Can be called while garbage goes."""
        self._errands.put(errand)

    def why(self) -> str:
        """The end of a sentence that says that it was not renewed."""
        return f": {self.failure}" if self.failure else ""

    def close(self) -> None:
        """End the thread, after what it is doing just now."""
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
                log.exception("something that was left to the renewal of %s failed", self._what)
            # It may be the last thing that refers to the owner.
            del errand

    def _renew(self) -> None:
        owner = self._owner()
        if owner is None:
            return
        try:
            owner.renew()
            self.failure = ""
        except Exception as error:
            # Only its words are kept: an error refers to all that was at work, the owner too.
            self.failure = str(error) or type(error).__name__
            log.warning("%s was not renewed: %s", self._what, self.failure)
