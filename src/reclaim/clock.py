"""The one place where time is read.

Everything that needs the time is given a ``Clock``, so that tests and the demo can move it.
Instants are aware ``datetime`` in UTC, and whole microseconds since 1970 where they are stored.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol

from reclaim.safety import SAFETY

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
SKEW = SAFETY.clock_skew
"""How far the clock of a machine may be from the storage's."""


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """The present instant, aware, in UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


def to_micros(instant: datetime) -> int:
    """Whole microseconds since 1970."""
    return (instant - EPOCH) // MICROSECOND


@lru_cache(maxsize=1024)
def from_micros(micros: int) -> datetime:
    """The instant that many microseconds after 1970."""
    return EPOCH + timedelta(microseconds=micros)
