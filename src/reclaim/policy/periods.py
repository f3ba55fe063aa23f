"""Calendar periods in UTC: the hour, day, week, month or year containing an instant."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from functools import cache

_FIRST_DAY = date(1970, 1, 1).toordinal()
_FIRST_HOUR = 24 * _FIRST_DAY
_FIRST_MONDAY = 4


def hours_of(instants: Iterable[datetime]) -> list[int]:
    """Return the number of the hour of each instant; numbers of longer periods derive from it."""
    return [
        instant.toordinal() * 24 + instant.hour - _FIRST_HOUR
        if instant.tzinfo is UTC
        else _hour(instant.astimezone(UTC))
        for instant in instants
    ]


def _hour(instant: datetime) -> int:
    return instant.toordinal() * 24 + instant.hour - _FIRST_HOUR


@cache
def _month(day: int) -> int:
    first = _day(day)
    return first.year * 12 + first.month - 1


def _day(number: int) -> date:
    return date.fromordinal(_FIRST_DAY + number)


@cache
def _date(day: int) -> str:
    return str(_day(day))


def _week(number: int) -> str:
    year, week, _ = _day(7 * number + _FIRST_MONDAY).isocalendar()
    return f"{year}-W{week:02}"


NUMBER: dict[str, Callable[[int], int]] = {
    "hourly": lambda hour: hour,
    "daily": lambda hour: hour // 24,
    "weekly": lambda hour: (hour // 24 - _FIRST_MONDAY) // 7,
    "monthly": lambda hour: _month(hour // 24),
    "yearly": lambda hour: _month(hour // 24) // 12,
}
"""Number of the period containing an hour."""


def numbers_of(period: str, hours: list[int], days: list[int]) -> list[int]:
    """Return the number of the period containing each hour; ``days`` are the days of the hours."""
    if period in ("hourly", "daily"):
        return hours if period == "hourly" else days
    number_of = {day: NUMBER[period](24 * day) for day in set(days)}
    return [number_of[day] for day in days]


NAME: dict[str, Callable[[int], str]] = {
    "hourly": lambda hour: f"{_date(hour // 24)} {hour % 24:02}:00",
    "daily": _date,
    "weekly": _week,
    "monthly": lambda month: f"{month // 12}-{month % 12 + 1:02}",
    "yearly": str,
}
"""Name of the period with a number."""
