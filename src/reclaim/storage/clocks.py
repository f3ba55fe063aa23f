"""The clock of a storage, which the time of a probe tells."""

from __future__ import annotations

from datetime import datetime

from reclaim.errors import ClockSkew
from reclaim.safety import SAFETY
from reclaim.storage.base import Storage


def check_clock(storage: Storage, probe: str, now: datetime) -> None:
    """Refuse to judge ages by a clock that is not the storage's. ``probe`` is a free address."""
    storage.put(probe, b"")
    told = storage.head(probe).last_modified
    storage.delete(probe)
    if abs(told - now) > SAFETY.clock_skew:
        raise ClockSkew(
            f"this machine's clock says {now:%F %T} UTC and the storage's {told:%F %T} UTC",
            hint="set the clock; ages cannot be judged otherwise",
        )
