"""The clock of a storage, read from the time of a probe object."""

from __future__ import annotations

from datetime import datetime

from reclaim.errors import ClockSkew
from reclaim.safety import SAFETY
from reclaim.storage.base import Storage


def check_clock(storage: Storage, probe: str, now: datetime) -> None:
    """Refuse a machine clock that differs from the storage's. ``probe`` is a free address."""
    storage.put(probe, b"")
    storage_time = storage.head(probe).last_modified
    storage.delete(probe)
    if abs(storage_time - now) > SAFETY.clock_skew:
        raise ClockSkew(
            f"this machine's clock says {now:%F %T} UTC and the storage's {storage_time:%F %T} UTC",
            hint="set the clock; ages cannot be judged otherwise",
        )
