"""Times in ref expressions: ``main@2026-10-01`` is the commit at the end of this day.

A moment covers the day, minute or second it names, to its end, so a commit can be found by its time
in a log. Times without an offset are in UTC.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from reclaim.errors import InvalidInput

_MOMENT = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)"
    r"(?:[T ](?P<minute>\d\d:\d\d)(?P<second>:\d\d(?P<fraction>\.\d{1,6})?)?"
    r"(?P<offset>Z|[+-]\d\d:\d\d)?)?"
)


def end_of(text: str) -> datetime:
    """Return the first instant after the day, minute or second of a text."""
    parts = _MOMENT.fullmatch(text)
    try:
        if parts is None:
            raise ValueError
        begin = datetime.fromisoformat(text)
        if begin.tzinfo is None:
            begin = begin.replace(tzinfo=UTC)
        return begin.astimezone(UTC) + _length(parts)
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"{text!r} is not a time",
            hint="use REF@2026-10-31 or REF@2026-10-31T12:00:00Z; without an offset it is in UTC",
        ) from None


def _length(parts: re.Match[str]) -> timedelta:
    if parts["fraction"]:
        return timedelta(microseconds=1)
    if parts["second"]:
        return timedelta(seconds=1)
    return timedelta(minutes=1) if parts["minute"] else timedelta(days=1)
