"""Tools for tests and the demo: a clock that is moved by hand, and storage that follows it."""

from reclaim.testing.clock import FakeClock
from reclaim.testing.scheduler import Scheduler
from reclaim.testing.storage import ClockedStorage, StorageWrapper
from reclaim.testing.switching import (
    Switch,
    SwitchingClock,
    SwitchingDatabase,
    SwitchingStorage,
)

__all__ = [
    "ClockedStorage",
    "FakeClock",
    "Scheduler",
    "StorageWrapper",
    "Switch",
    "SwitchingClock",
    "SwitchingDatabase",
    "SwitchingStorage",
]
