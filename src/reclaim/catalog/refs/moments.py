"""Moments in ref expressions: ``main@2026-10-01`` names the commit of that time.

A moment is as long as it is written precisely: a day, a minute or a second, to its end. So a
commit that a log shows with a time is found by that time. Without an offset it is in UTC.
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
    """The first instant after the day, minute or second that a text names."""
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
            hint="write REF@2026-10-31 or REF@2026-10-31T12:00:00Z; without an offset it is in UTC",
        ) from None


def _length(parts: re.Match[str]) -> timedelta:
    if parts["fraction"]:
        return timedelta(microseconds=1)
    if parts["second"]:
        return timedelta(seconds=1)
    return timedelta(minutes=1) if parts["minute"] else timedelta(days=1)
