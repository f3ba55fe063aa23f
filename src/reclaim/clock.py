"""The only place where time is read.

Code with a need for the time takes a ``Clock``, so tests and the demo can move it. Instants are
aware ``datetime`` in UTC, stored as whole microseconds since 1970.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol

from reclaim.safety import SAFETY

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
SKEW = SAFETY.clock_skew
"""Largest tolerated difference between the clocks of a machine and of the storage."""


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """Return the present instant, aware, in UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


def to_micros(instant: datetime) -> int:
    """Return whole microseconds since 1970."""
    return (instant - EPOCH) // MICROSECOND


@lru_cache(maxsize=1024)
def from_micros(micros: int) -> datetime:
    """Return the instant at a number of microseconds after 1970."""
    return EPOCH + timedelta(microseconds=micros)
