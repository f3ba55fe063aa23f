"""Finding the store that a name or a plan means."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from reclaim.catalog import Catalog
from reclaim.errors import NotFound, PlanRefused
from reclaim.stores.base import Store
from reclaim.stores.catalog import CatalogStore
from reclaim.stores.terminus.store import TerminusStore


def find(catalog: Catalog, name: str) -> CatalogStore:
    """A repository by name or, for a deleted one, by its uid."""
    return CatalogStore(catalog.access(name))


TERMINUS = "terminus:"


def find_foreign(name: str) -> TerminusStore | None:
    """The store that a name with a kind means, such as ``terminus:PATH``; None for our own."""
    if name.startswith(TERMINUS):
        return TerminusStore(Path(name.removeprefix(TERMINUS)))
    return None


def check_planned(store: Store, *, kind: str, name: str, uid: str) -> None:
    """Refuse a plan that was made for another store than the one that was named."""
    if (store.kind, store.uid) != (kind, uid):
        raise PlanRefused(
            f"the plan is for {name} ({uid}), not for {store.name} ({store.uid})",
            hint="apply it to the store that it was made for",
        )


def find_planned(catalog: Catalog, *, name: str, uid: str) -> CatalogStore:
    """The store that a plan was made for; a plan for one that is not here is refused."""
    try:
        return find(catalog, uid)
    except NotFound as error:
        raise PlanRefused(
            f"the plan is for the repository {name} ({uid}), which this catalog does not have",
            hint="name the catalog that it was made with: --catalog",
        ) from error


def find_all(catalog: Catalog) -> Iterator[CatalogStore]:
    """Every repository, deleted ones last."""
    return (CatalogStore(repository) for repository in catalog.accesses())
