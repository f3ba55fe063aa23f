"""Stores that break the contract of taking what live snapshots refer to."""

from __future__ import annotations

from reclaim.catalog.collection.condemn import claimed_addresses
from reclaim.catalog.collection.locks import RepositoryLock
from reclaim.stores.catalog import CatalogStore
from reclaim.stores.catalog.held import HeldRepository
from tests.stores.breaks import CATALOG, Break, nothing

TAKING_BREAKS = {
    "test_lifecycle_rules_are_kept": Break(CatalogStore, "store_lifecycle", nothing, CATALOG),
    "test_a_claim_is_provisional": Break(HeldRepository, "abandon", nothing, CATALOG),
    "test_claims_that_were_left_are_taken_back": Break(HeldRepository, "begin", nothing, CATALOG),
    "test_claims_are_dropped_for_what_needs_them": Break(
        HeldRepository, "drop_staged_claims", lambda _held: 1, CATALOG
    ),
    "test_claims_are_promoted_by_the_last_reading": Break(
        claimed_addresses, "_is_more_named", lambda *_: False, CATALOG
    ),
    "test_claims_by_other_rules_are_not_promoted": Break(
        claimed_addresses, "_check_rules", nothing, CATALOG
    ),
    "test_promoted_claims_are_final": Break(
        claimed_addresses, "_check_provisional", nothing, CATALOG
    ),
    "test_what_rules_took_is_known": Break(CatalogStore, "expired_by", lambda _store: (), CATALOG),
    "test_what_rules_took_can_be_let_go": Break(
        HeldRepository, "release_claims", lambda *_: 1, CATALOG
    ),
    "test_what_an_edit_took_out_is_known": Break(
        CatalogStore, "find_released", lambda *_: (), CATALOG
    ),
    "test_who_lost_the_lock_takes_nothing": Break(RepositoryLock, "assure", nothing, CATALOG),
}

MORE_TAKING = {
    "claims that anybody can refer to": (
        "test_a_claim_is_provisional",
        Break("reclaim.catalog.staging.claims", "check_unclaimed", nothing, CATALOG),
    ),
    "claims that nobody drops": (
        "test_claims_are_dropped_for_what_needs_them",
        Break(HeldRepository, "drop_claims", lambda *_: 1, CATALOG),
    ),
    "what was taken is not forgotten": (
        "test_what_rules_took_can_be_let_go",
        Break(HeldRepository, "forget_expired", lambda *_: 1, CATALOG),
    ),
}
"""Other ways to break what a test asks for."""
