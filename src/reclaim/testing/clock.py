"""A clock that stands still until it is moved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class FakeClock:
    """Returns the time it was set to. It can be moved back, for tests of broken clocks."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start

    def now(self) -> datetime:
        return self._now

    def advance(self, by: timedelta | None = None, **parts: float) -> datetime:
        """Move on by a duration, or by ``days=``, ``hours=``, … like ``timedelta``."""
        self._now += by if by is not None else timedelta(**parts)
        return self._now

    def set(self, to: datetime) -> None:
        self._now = to
