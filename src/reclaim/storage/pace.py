"""A pace: requests to a storage at a rate it can take.

Each request is sent without retries, so the storage reports overload: the rate grows with each
answer and halves with each refusal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from reclaim.errors import ReclaimError, StorageUnavailable, VersioningOff

PATIENCE = 5
"""Attempts at a page before its keys are tried one by one."""

S = TypeVar("S")
T = TypeVar("T")
InTime = Callable[[], bool]


class TimeOver(Exception):
    """The time of a wave ended in the middle of a page; its work is repeated."""


def check_time(in_time: InTime) -> None:
    """Stop, unless there is time for another request."""
    if not in_time():
        raise TimeOver


@dataclass(slots=True)
class Pace:
    """The number of keys a task sends per second."""

    rate: float = 5_000.0
    least: float = 10.0
    sleep: Callable[[float], None] = field(default=time.sleep)

    def answered(self, keys: int, took: float) -> None:
        """After an answer, wait for the rest of the page's time, and speed up."""
        pause = keys / self.rate - took
        if pause > 0:
            self.sleep(pause)
        self.rate *= 1.5

    def refused(self, keys: int) -> None:
        """After a refusal, slow down, and wait before the next attempt."""
        self.rate = max(self.rate / 2, self.least)
        self.sleep(keys / self.rate)

    def take(
        self,
        items: Sequence[S],
        *,
        together: Callable[[Sequence[S]], Sequence[T]],
        singly: Callable[[S], T],
        failed: Callable[[ReclaimError], T],
        in_time: InTime,
        strict: bool = False,
    ) -> Sequence[T] | None:
        """Return the outcome for each of several keys; None when time ran out.

        With ``strict``, order matters: nothing is tried after the first failure.
        """
        for _ in range(PATIENCE):
            if not in_time():
                return None
            started = time.monotonic()
            try:
                page = together(items)
            except TimeOver:
                return None
            except VersioningOff:
                # It concerns every object, so none of them may be tried.
                raise
            except StorageUnavailable:
                self.refused(len(items))
            except ReclaimError:
                break
            else:
                self.answered(len(items), time.monotonic() - started)
                return page
        taken: list[T] = []
        for item in items:
            try:
                check_time(in_time)
                taken.append(singly(item))
            except TimeOver:
                break
            except VersioningOff:
                raise
            except ReclaimError as error:
                taken.append(failed(error))
                if strict:
                    break
        return taken or None
