"""Calendar periods, in UTC: the hour, day, week, month or year that an instant lies in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONDAY = datetime(1970, 1, 5, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def _hour(instant: datetime) -> int:
    since = instant - _EPOCH
    return since.days * 24 + since.seconds // 3600


def _month(instant: datetime) -> int:
    instant = instant.astimezone(UTC)
    return instant.year * 12 + instant.month


def _label(form: str) -> Callable[[datetime], str]:
    return lambda instant: instant.astimezone(UTC).strftime(form)


NUMBER: dict[str, Callable[[datetime], int]] = {
    "last": lambda instant: (instant - _EPOCH) // _MICROSECOND,
    "hourly": _hour,
    "daily": lambda instant: (instant - _EPOCH).days,
    "weekly": lambda instant: (instant - _MONDAY).days // 7,
    "monthly": _month,
    "yearly": lambda instant: instant.astimezone(UTC).year,
}

NAME: dict[str, Callable[[datetime], str]] = {
    "hourly": _label("%Y-%m-%d %H:00"),
    "daily": _label("%Y-%m-%d"),
    "weekly": _label("%G-W%V"),
    "monthly": _label("%Y-%m"),
    "yearly": _label("%Y"),
}
