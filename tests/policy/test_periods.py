"""Calendar periods hour by hour, against the calendar itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest

from reclaim.policy.periods import NAME, NUMBER, hours_of

pytestmark = pytest.mark.fast

LABELS: dict[str, Callable[[datetime], object]] = {
    "hourly": lambda one: (one.date(), one.hour),
    "daily": lambda one: one.date(),
    "weekly": lambda one: one.isocalendar()[:2],
    "monthly": lambda one: (one.year, one.month),
    "yearly": lambda one: one.year,
}

FORMS = {
    "hourly": "%Y-%m-%d %H:00",
    "daily": "%Y-%m-%d",
    "weekly": "%G-W%V",
    "monthly": "%Y-%m",
    "yearly": "%Y",
}


@pytest.mark.parametrize("period", NUMBER)
@pytest.mark.parametrize("start", ["1968-12-30", "2023-12-25", "2026-02-25"])
def test_a_period_is_named_by_the_calendar(period: str, start: str) -> None:
    first = datetime.fromisoformat(start).replace(tzinfo=UTC)
    for number in range(9 * 24):
        instant = first + timedelta(hours=number)
        assert NAME[period](NUMBER[period](*hours_of([instant]))) == instant.strftime(FORMS[period])


@pytest.mark.parametrize("period", NUMBER)
@pytest.mark.parametrize("start", ["1968-12-30", "1969-12-29", "2023-12-25", "2026-02-25"])
def test_instants_share_a_number_when_they_share_a_period(period: str, start: str) -> None:
    first = datetime.fromisoformat(start).replace(tzinfo=UTC)
    pairs = set()
    for number in range(9 * 24):
        instant = first + timedelta(hours=number)
        for told in (instant, instant.astimezone(timezone(timedelta(hours=-7)))):
            pairs.add((NUMBER[period](*hours_of([told])), LABELS[period](instant)))
    assert len(pairs) == len({one for one, _ in pairs}) == len({one for _, one in pairs})
