"""Ages as options: ``24h``, ``7d``, ``1mo``."""

from __future__ import annotations

from datetime import timedelta


def parse_age(option: str, text: str) -> timedelta:
    """Parse an age. Months and years count back from now."""
    from reclaim.api.options import to_timedelta

    return to_timedelta(text, option)
