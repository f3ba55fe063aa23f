"""Repositories of our own catalog, as stores: every reference is a row of one database."""

from reclaim.stores.catalog.format import CatalogFormat
from reclaim.stores.catalog.held import HeldRepository
from reclaim.stores.catalog.store import CatalogStore

__all__ = ["CatalogFormat", "CatalogStore", "HeldRepository"]
