"""Tools for authors of stores and for the demo: a clock moved by hand, storage following this
clock, faults, and the contract of stores."""

from reclaim.testing.clock import FakeClock
from reclaim.testing.storage import ClockedStorage, StorageWrapper

__all__ = ["ClockedStorage", "FakeClock", "StorageWrapper"]
