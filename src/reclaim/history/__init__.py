"""History of a store: a graph of snapshots with refs, and its expiration.

A snapshot is *kept* or *expired*. An expired parent of a kept snapshot is replaced by its
*frontier*, the nearest kept snapshots below it. The *merge base* is the newest common ancestor of a
branch and the default branch. These modules work on their arguments alone; they read and write
nothing.
"""

from reclaim.history.bases import TouchedBase
from reclaim.history.expire import Edit, expire
from reclaim.history.expired import ExpiredCount, Holder, count_expired, held_by_undo
from reclaim.history.graph import build

__all__ = [
    "Edit",
    "ExpiredCount",
    "Holder",
    "TouchedBase",
    "build",
    "count_expired",
    "expire",
    "held_by_undo",
]
