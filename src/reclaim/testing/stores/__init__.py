"""The contract of a store, as classes of tests.

Whoever writes a store subclasses ``StoreContract`` (what every store must do), ``AbilityContract``
(what the abilities promise that it declares) and ``RunContract`` (whole runs), and gives each a
fixture ``subject``. The subject goes around the adapter wherever it can: it writes and lists
objects in the storage itself, and works out from the store's own library what a snapshot needs. A
test is skipped only where the store does not declare the ability; that the store declares what it
has, no more and no less, is a test as well.
"""

from reclaim.testing.stores.abilities import AbilityContract
from reclaim.testing.stores.required import StoreContract
from reclaim.testing.stores.runs import RunContract
from reclaim.testing.stores.subject import (
    BackupSubject,
    EditedSubject,
    GuardedSubject,
    HistorySubject,
    InterruptedStorage,
    LeasingSubject,
    LibrarySubject,
    NamingSubject,
    Subject,
    TakingSubject,
)

__all__ = [
    "AbilityContract",
    "BackupSubject",
    "EditedSubject",
    "GuardedSubject",
    "HistorySubject",
    "InterruptedStorage",
    "LeasingSubject",
    "LibrarySubject",
    "NamingSubject",
    "RunContract",
    "StoreContract",
    "Subject",
    "TakingSubject",
]
