"""Ids that nobody else has: of commits, objects, runs, leases and owners."""

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
    """128 random bits as 32 hexadecimal digits."""
    return secrets.token_hex(16)


def new_run_id(now: datetime) -> str:
    """32 hexadecimal digits, of which the last 12 are the time in milliseconds.

    So the name of a run's folder tells how old it is. The first digits are random: people name a
    run by them.
    """
    time = (now - _BEGIN) // _MILLISECOND
    return f"{secrets.token_hex(10)}{time:0{_DIGITS_OF_TIME}x}"


def age_by_id(run_id: str, now: datetime) -> timedelta | None:
    """How old a run is by its id; None if the id does not tell a time.

    An id that was made without a time looks like one of another century.
    """
    if len(run_id) != _RUN_ID_DIGITS:
        return None
    try:
        time = int(run_id[-_DIGITS_OF_TIME:], 16)
    except ValueError:
        return None
    return now - _BEGIN - time * _MILLISECOND
