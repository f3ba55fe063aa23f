"""The length of leases, whatever they are kept in."""

from __future__ import annotations

from datetime import timedelta

from reclaim.errors import InvalidInput
from reclaim.safety import SAFETY

LONGEST = SAFETY.longest_lease


def check_length(length: timedelta) -> None:
    """Refuse a lease that would not last, or too long."""
    if not timedelta(0) < length <= LONGEST:
        raise InvalidInput(
            f"a lease cannot last for {length}",
            hint=f"hold it for at most {LONGEST.days} d, and renew it in time",
        )
