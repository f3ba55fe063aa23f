"""Reclaim decides what a versioned data store must keep, shows what can go and why, and deletes it.

from reclaim import Catalog

with Catalog.init(".reclaim") as catalog:
    repo = catalog.create_repository("sales")
    main = repo.branch("main")
    main.put("2026/orders.csv", b"id,amount\\n1,20\\n")
    main.commit("First orders")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reclaim.catalog import Catalog

__all__ = ["Catalog"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Load the catalog when it is asked for, so that `reclaim --help` is quick."""
    if name == "Catalog":
        from reclaim.catalog import Catalog

        return Catalog
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
