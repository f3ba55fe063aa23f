"""The history of a store: a graph of snapshots with refs into it, and its expiration.

A snapshot is *kept* or *expired*. An expired parent of a kept snapshot is replaced by its
*frontier*, the kept snapshots next below it. A *base* is where a branch and the default branch
met last. Everything here is decided from what is given; nothing is read and nothing written.
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
