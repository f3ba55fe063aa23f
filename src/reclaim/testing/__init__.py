"""Tools for tests and the demo: a clock that is moved by hand, and storage that follows it."""

from reclaim.testing.clock import FakeClock
from reclaim.testing.storage import ClockedStorage, StorageWrapper

__all__ = ["ClockedStorage", "FakeClock", "StorageWrapper"]
