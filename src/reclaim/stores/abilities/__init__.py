"""Optional abilities of stores, declared by inheritance.

Runs check for abilities and refuse with an error if a required ability is missing. An ability with
operations under the lock has a second class for the held handle, in ``HALVES``. A store with an
incomplete ability, in either half, cannot be opened: see ``stores.registry``.
"""

from collections.abc import Mapping

from reclaim.stores.abilities.backups import HeldBackups, KeepsBackups
from reclaim.stores.abilities.claims import AddressFiles, HeldClaims, TakesReferenced
from reclaim.stores.abilities.dependencies import NeedsOtherSnapshots
from reclaim.stores.abilities.examination import Examines
from reclaim.stores.abilities.expiration import BY_REF, Expiration, ExpiresItself, HeldExpiration
from reclaim.stores.abilities.guards import HeldGuards, KeepsGuards
from reclaim.stores.abilities.history import (
    EditsHistory,
    HeldHistory,
    HistorySeen,
    NeedsMoreOnceEdited,
    ShowsHistory,
)
from reclaim.stores.abilities.leases import HoldsLeases
from reclaim.stores.abilities.online_deletes import DeletesOnline, OnlineDeletes
from reclaim.stores.abilities.quarantine import (
    HeldQuarantine,
    KeepsParents,
    Quarantines,
    ReportsRereferenced,
    Restored,
)
from reclaim.stores.format import (
    DecodesSnapshots,
    IndexesEntries,
    ReadsContainers,
    SurveysContainers,
)

HALVES: Mapping[type, type] = {
    ExpiresItself: HeldExpiration,
    KeepsBackups: HeldBackups,
    KeepsGuards: HeldGuards,
    Quarantines: HeldQuarantine,
    ShowsHistory: HeldHistory,
    TakesReferenced: HeldClaims,
}
"""For each ability with operations under the lock, the class for the held handle."""

ABILITIES: frozenset[type] = frozenset(
    {
        *HALVES,
        *HALVES.values(),
        DecodesSnapshots,
        DeletesOnline,
        EditsHistory,
        Examines,
        HoldsLeases,
        IndexesEntries,
        KeepsParents,
        NeedsMoreOnceEdited,
        NeedsOtherSnapshots,
        ReadsContainers,
        ReportsRereferenced,
        SurveysContainers,
    }
)
"""All abilities of stores, handles and formats."""

__all__ = [
    "ABILITIES",
    "BY_REF",
    "HALVES",
    "AddressFiles",
    "DeletesOnline",
    "EditsHistory",
    "Examines",
    "Expiration",
    "ExpiresItself",
    "HeldBackups",
    "HeldClaims",
    "HeldExpiration",
    "HeldGuards",
    "HeldHistory",
    "HeldQuarantine",
    "HistorySeen",
    "HoldsLeases",
    "KeepsBackups",
    "KeepsGuards",
    "KeepsParents",
    "NeedsMoreOnceEdited",
    "NeedsOtherSnapshots",
    "OnlineDeletes",
    "Quarantines",
    "ReportsRereferenced",
    "Restored",
    "ShowsHistory",
    "TakesReferenced",
]
