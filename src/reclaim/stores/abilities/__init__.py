"""Optional abilities of a store: one protocol for each, of the store or of its held handle.

A run asks whether a store has it, and refuses with a sentence if not. No store carries a stub.
"""

from reclaim.stores.abilities.claims import AddressFiles, KnowsExpired, TakesReferenced
from reclaim.stores.abilities.deletes import (
    AbortsUploads,
    ClosesOverdue,
    CompactsMetadata,
    DeletesOnline,
    FreesKinds,
    KeepsBackups,
    OnlineDeletes,
    OrdersDeletes,
)
from reclaim.stores.abilities.documents import KeepsLifecycle, KeepsPolicy
from reclaim.stores.abilities.expiration import (
    BY_REF,
    Expiration,
    ExpiresItself,
    ExpiresUnderLock,
    NeedsLibrary,
)
from reclaim.stores.abilities.history import (
    EditsHistory,
    HistorySeen,
    NeedsMoreOnceEdited,
    ShowsHistory,
)
from reclaim.stores.abilities.leases import HoldsLeases, ListsLeases
from reclaim.stores.abilities.quarantine import (
    KeepsParents,
    KnowsReleased,
    Quarantines,
    ReportsRereferenced,
    Restored,
    SetsAside,
    TakesOver,
)
from reclaim.stores.abilities.wholeness import (
    Adopts,
    AdoptsUnknown,
    AllowsMissing,
    Examines,
    NeedsOtherSnapshots,
)

__all__ = [
    "BY_REF",
    "AbortsUploads",
    "AddressFiles",
    "Adopts",
    "AdoptsUnknown",
    "AllowsMissing",
    "ClosesOverdue",
    "CompactsMetadata",
    "DeletesOnline",
    "EditsHistory",
    "Examines",
    "Expiration",
    "ExpiresItself",
    "ExpiresUnderLock",
    "FreesKinds",
    "HistorySeen",
    "HoldsLeases",
    "KeepsBackups",
    "KeepsLifecycle",
    "KeepsParents",
    "KeepsPolicy",
    "KnowsExpired",
    "KnowsReleased",
    "ListsLeases",
    "NeedsLibrary",
    "NeedsMoreOnceEdited",
    "NeedsOtherSnapshots",
    "OnlineDeletes",
    "OrdersDeletes",
    "Quarantines",
    "ReportsRereferenced",
    "Restored",
    "SetsAside",
    "ShowsHistory",
    "TakesOver",
    "TakesReferenced",
]
