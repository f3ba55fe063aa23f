"""Reclaim decides what a versioned data store must keep, shows what can go and why, and deletes it.

from reclaim import Catalog

with Catalog.init(".reclaim") as catalog:
    repo = catalog.create_repository("sales")
    main = repo.branch("main")
    main.put("2026/orders.csv", b"id,amount\\n1,20\\n")
    main.commit("First orders")
"""

from reclaim.catalog import Catalog

__all__ = ["Catalog"]
__version__ = "0.1.0"
