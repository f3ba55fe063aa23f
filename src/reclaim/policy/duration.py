"""Durations as users write them: ``30d``, ``12h``, ``1y6mo``."""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from reclaim.errors import InvalidInput

EARLIEST = datetime.min.replace(tzinfo=UTC)

_UNITS = ("y", "mo", "w", "d", "h", "min", "s")
_TEXT = re.compile("".join(rf"(?:([0-9]{{1,6}}){unit}(?![a-z]))?" for unit in _UNITS))
_BARE_M = re.compile("([0-9]+)m(?![a-z])")


@dataclass(frozen=True, slots=True)
class Duration:
    """Length of time. Years and months follow the calendar; shorter units are exact.

    A month before 31 March is the last day of February.
    """

    months: int = 0
    exact: timedelta = timedelta()
    text: str = ""

    @classmethod
    def parse(cls, text: str) -> Duration:
        """Parse units from large to small, each at most once: y, mo, w, d, h, min, s.

        A bare ``m`` is refused: it could mean months or minutes.
        """
        if bare := _BARE_M.search(text):
            count = bare[1]
            raise InvalidInput(
                f"{text!r} is not a duration: m could mean months or minutes",
                hint=f"write {count}mo for months or {count}min for minutes",
            )
        match = _TEXT.fullmatch(text)
        if not text or match is None:
            raise InvalidInput(
                f"{text!r} is not a duration",
                hint="write for example 30d, 12h, 2w or 1y6mo "
                "(y, mo for months, w, d, h, min for minutes, s; large units first)",
            )
        years, months, weeks, days, hours, minutes, seconds = (
            int(group or 0) for group in match.groups()
        )
        exact = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
        months += 12 * years
        if not months and not exact:
            raise InvalidInput(f"the duration {text!r} is zero", hint="leave it out instead")
        return cls(months, exact, text)

    @classmethod
    def of(cls, length: timedelta) -> Duration:
        """Return the duration of an exact length in whole seconds."""
        seconds = int(length.total_seconds())
        if seconds <= 0 or timedelta(seconds=seconds) != length:
            raise InvalidInput(
                f"{length!r} is not a duration", hint="use whole seconds, above zero"
            )
        text = ""
        for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
            count, seconds = divmod(seconds, size)
            text += f"{count}{unit}" if count else ""
        return cls.parse(text)

    def before(self, instant: datetime) -> datetime:
        """Return the instant this long before another, in UTC; never before the year 1."""
        instant = instant.astimezone(UTC)
        total = instant.year * 12 + instant.month - 1 - self.months
        year, month = divmod(total, 12)
        if year < 1:
            return EARLIEST
        day = min(instant.day, monthrange(year, month + 1)[1])
        try:
            return instant.replace(year=year, month=month + 1, day=day) - self.exact
        except OverflowError:
            return EARLIEST

    def __str__(self) -> str:
        return self.text
