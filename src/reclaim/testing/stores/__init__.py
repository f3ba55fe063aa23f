"""The contract of a store, as test classes.

Authors of a store subclass ``StoreContract`` (duties of every store), ``AbilityContract`` (duties
of the declared abilities) and ``RunContract`` (whole runs), and give each a fixture ``subject``.
The subject bypasses the adapter wherever it can: it writes and lists objects in the storage itself,
and uses the store's own library to determine the needs of a snapshot. A test is skipped only if the
store does not declare the ability; another test compares the declared abilities with the real ones.
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
