"""Calendar periods, in UTC: the hour, day, week, month or year that an instant lies in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from functools import cache

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY = date(1970, 1, 1).toordinal()
_FIRST_MONDAY = 4


def hour_of(instant: datetime) -> int:
    """The number of the hour; the numbers of all longer periods follow from it."""
    since = instant - _EPOCH
    return since.days * 24 + since.seconds // 3600


@cache
def _month(day: int) -> int:
    first = date.fromordinal(_FIRST_DAY + day)
    return first.year * 12 + first.month - 1


def _label(form: str) -> Callable[[datetime], str]:
    return lambda instant: instant.astimezone(UTC).strftime(form)


NUMBER: dict[str, Callable[[int], int]] = {
    "hourly": lambda hour: hour,
    "daily": lambda hour: hour // 24,
    "weekly": lambda hour: (hour // 24 - _FIRST_MONDAY) // 7,
    "monthly": lambda hour: _month(hour // 24),
    "yearly": lambda hour: _month(hour // 24) // 12,
}
"""The number of the period that an hour lies in."""

NAME: dict[str, Callable[[datetime], str]] = {
    "hourly": _label("%Y-%m-%d %H:00"),
    "daily": _label("%Y-%m-%d"),
    "weekly": _label("%G-W%V"),
    "monthly": _label("%Y-%m"),
    "yearly": _label("%Y"),
}
