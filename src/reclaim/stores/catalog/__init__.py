"""Repositories of the catalog as stores: every reference is a row of one database.

Formats are sent to executors. Loading a format must not load database modules, so the other classes
are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reclaim.stores.catalog.format import CatalogFormat
    from reclaim.stores.catalog.held import HeldRepository
    from reclaim.stores.catalog.store import CatalogStore

__all__ = ["CatalogFormat", "CatalogStore", "HeldRepository"]

_MODULES = {"CatalogFormat": "format", "CatalogStore": "store", "HeldRepository": "held"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
