"""Unique ids of commits, objects, runs, leases and owners."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_DIGITS_OF_TIME = 12
_RUN_ID_DIGITS = 32
SHORT = 12
"""How much of an id people are shown."""


def short(identifier: str) -> str:
    """The start of an id, which commands take for the whole."""
    return identifier[:SHORT]


def new_uid() -> str:
    """Return 128 random bits as 32 hexadecimal digits."""
    return secrets.token_hex(16)


def new_run_id(now: datetime) -> str:
    """Return 32 hexadecimal digits, the last 12 of them the time in milliseconds.

    So the name of a run's folder shows its age. The first digits are random: people abbreviate a
    run to them.
    """
    time = (now - _BEGIN) // _MILLISECOND
    return f"{secrets.token_hex(10)}{time:0{_DIGITS_OF_TIME}x}"


def age_by_id(run_id: str, now: datetime) -> timedelta | None:
    """Return the age of a run by its id; None if the id has no valid time.

    An id made without a time appears to be from another century.
    """
    if len(run_id) != _RUN_ID_DIGITS:
        return None
    try:
        time = int(run_id[-_DIGITS_OF_TIME:], 16)
    except ValueError:
        return None
    return now - _BEGIN - time * _MILLISECOND
