"""Ages as options: ``24h``, ``7d``, ``1mo``."""

from __future__ import annotations

import re
from datetime import timedelta

from reclaim.errors import InvalidInput

_ZERO = re.compile("0(y|mo|w|d|h|min|s)?")


def parse_age(option: str, text: str) -> timedelta:
    """How long ago an age was; months and years are counted back from now."""
    from reclaim.clock import SystemClock
    from reclaim.policy import Duration

    if _ZERO.fullmatch(text):
        return timedelta(0)
    try:
        length = Duration.parse(text)
    except InvalidInput as error:
        raise InvalidInput(f"{option}: {error.message}", hint=error.hint) from error
    now = SystemClock().now()
    return now - length.before(now)
