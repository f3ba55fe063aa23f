"""The length of leases, wherever they are stored."""

from __future__ import annotations

from datetime import timedelta

from reclaim.errors import InvalidInput
from reclaim.safety import SAFETY

LONGEST = SAFETY.longest_lease


def check_length(length: timedelta) -> None:
    """Refuse a length of zero or less, and a length over the limit."""
    if not timedelta(0) < length <= LONGEST:
        raise InvalidInput(
            f"a lease cannot last for {length}",
            hint=f"hold it for at most {LONGEST.days} d, and renew it in time",
        )
