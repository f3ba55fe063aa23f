"""Stores by name: a repository of the catalog, or SCHEME:LOCATION for a store of another kind.

A kind is an entry of ``OPENERS``, or an entry point of the group ``reclaim.stores`` in another
package: a function opening the store at a location. No other module names a kind of store. Where a
location may hold several stores, the registered opener also lists them (``FindsStores``). A store
with an incomplete ability is refused (``check_declared``).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, cast

from reclaim.errors import InvalidInput, NotFound, PlanRefused, Refused
from reclaim.urls import path_of

if TYPE_CHECKING:
    from reclaim.catalog import Catalog
    from reclaim.catalog.workspace import Workspace
    from reclaim.stores.base import Store

GROUP = "reclaim.stores"
CATALOG = "reclaim.stores.catalog:CatalogStore"
OPENERS: dict[str, str] = {
    "icechunk": "reclaim.stores.icechunk.store:open_store",
    "terminus": "reclaim.stores.terminus.store:open_store",
}
"""Functions opening a store, as MODULE:FUNCTION, by scheme."""


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")


class FindsStores(ABC):
    """Opener of a kind of store with possibly several stores at a location."""

    @abstractmethod
    def __call__(self, location: str) -> Store:
        """Open the store at a location."""

    @abstractmethod
    def find_all(self, location: str) -> Iterable[str]:
        """Locations of all stores at a location, including damaged stores.

        Each store is opened separately, so that a failure affects no other store.
        """


@dataclass(frozen=True, slots=True)
class NamedStore:
    """A store not opened yet, with its name on the command line."""

    name: str
    open: Callable[[], Store]


def schemes() -> Sequence[str]:
    """Schemes included in Reclaim."""
    return sorted(OPENERS)


def _all_schemes() -> Sequence[str]:
    from importlib.metadata import entry_points

    return sorted({*OPENERS, *(point.name for point in entry_points(group=GROUP))})


def find_foreign(name: str) -> Store | None:
    """Open the store named with a scheme, such as ``terminus:PATH``; None for the catalog's own."""
    opener = _find_opener(name)
    return None if opener is None else _open(opener, name.partition(":")[2])


def is_foreign(name: str) -> bool:
    """Whether a name means a store outside the catalog; refuse an unknown scheme."""
    return _find_opener(name) is not None


def _find_opener(name: str) -> Callable[[str], Store] | None:
    scheme, separator, _ = name.partition(":")
    opener = _opener(scheme) if separator else None
    if opener is None and separator and _SCHEME.fullmatch(scheme):
        # The name of a repository has no colon.
        raise InvalidInput(
            f"unknown kind of store {scheme!r}",
            hint=f"write a store as SCHEME:LOCATION, with one of the schemes "
            f"{', '.join(_all_schemes())}; a repository of the catalog by its name alone",
        )
    return opener


def find_several(name: str) -> Iterator[NamedStore]:
    """All stores at the location of a name with a scheme."""
    scheme, separator, location = name.partition(":")
    opener = _opener(scheme) if separator else None
    if opener is None:
        raise InvalidInput(
            f"STORE names one repository, {name}, and --all asks for all of them",
            hint="use either STORE or --all; or --all with SCHEME:LOCATION for several stores",
        )
    if not isinstance(opener, FindsStores):
        raise Refused(
            f"--all cannot find the {scheme} stores of a location",
            hint=f"omit --all, and name each store: {scheme}:LOCATION",
        )
    for store_location in opener.find_all(location):
        yield NamedStore(
            name_of(scheme, store_location, store_location), partial(_open, opener, store_location)
        )


def name_of(kind: str, name: str, uid: str) -> str:
    """Name of a store on the command line."""
    if kind == "catalog":
        return name
    return f"{kind}:{path_of(uid) if uid.startswith('file:') else uid}"


def find(catalog: Catalog, name: str) -> Store:
    """Find a repository by name or, if deleted, by its uid."""
    return _of_catalog(catalog.workspace(name))


def find_all(catalog: Catalog) -> Iterator[Store]:
    """All repositories, deleted repositories last."""
    return map(_of_catalog, catalog.workspaces())


def find_planned(catalog: Catalog, *, name: str, uid: str) -> Store:
    """Find the store of a plan; refuse a plan for a store not in this catalog."""
    try:
        return find(catalog, uid)
    except NotFound as error:
        raise PlanRefused(
            f"the plan is for the repository {name} ({uid}), which this catalog does not have",
            hint="use the catalog of the plan: --catalog",
        ) from error


def check_planned(store: Store, *, kind: str, name: str, uid: str) -> None:
    """Refuse a plan made for a store other than the named store."""
    if (store.kind, store.uid) != (kind, uid):
        raise PlanRefused(
            f"the plan is for {name} ({uid}), not for {store.name} ({store.uid})",
            hint="apply it to its own store",
        )


def check_declared(store: Store) -> None:
    """Refuse a store with an ability incompletely implemented or not declared.

    Runs detect abilities by class: the methods of an undeclared ability would never be called, and
    a step protecting data would be skipped without an error.
    """
    from reclaim.stores.abilities import ABILITIES, HALVES, NeedsOtherSnapshots
    from reclaim.stores.base import Held, Store
    from reclaim.stores.declared import check_complete
    from reclaim.stores.format import Format

    handle = store.handle
    owners = {type(store): Store, handle: Held, type(store.format): Format}
    for owner, root in owners.items():
        if not issubclass(owner, root):
            raise _incomplete(f"{owner.__name__} does not inherit from {root.__name__}")
        check_complete(owner)
        declared = {ability for ability in ABILITIES if issubclass(owner, ability)}
        known = {*dir(root), *(name for ability in declared for name in dir(ability))}
        for ability in ABILITIES - declared:
            for name in sorted(set(dir(ability)) & set(dir(owner)) - known):
                raise _incomplete(
                    f"{owner.__name__} has {name} of {ability.__name__} without declaring it"
                )
    for ability, half in HALVES.items():
        if isinstance(store, ability) and not issubclass(handle, half):
            lacks, has = f"{handle.__name__} declares no {half.__name__}", type(store).__name__
            raise _incomplete(f"{lacks}, and {has} declares {ability.__name__}")
        if issubclass(handle, half) and not isinstance(store, ability):
            lacks, has = f"{type(store).__name__} declares no {ability.__name__}", handle.__name__
            raise _incomplete(f"{lacks}, and {has} declares {half.__name__}")
    if store.format.sequential != isinstance(store, NeedsOtherSnapshots):
        raise _incomplete(
            f"{type(store.format).__name__} is sequential, or {type(store).__name__} declares "
            "NeedsOtherSnapshots: both are required together"
        )


def _incomplete(sentence: str) -> Refused:
    return Refused(sentence, hint="nothing was changed; correct the classes of the store")


def _open(opener: Callable[[str], Store], location: str) -> Store:
    store = opener(location)
    check_declared(store)
    return store


def _of_catalog(workspace: Workspace) -> Store:
    store = cast("Callable[[Workspace], Store]", _load(CATALOG))(workspace)
    check_declared(store)
    return store


def _opener(scheme: str) -> Callable[[str], Store] | None:
    if scheme in OPENERS:
        return cast("Callable[[str], Store]", _load(OPENERS[scheme]))
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP, name=scheme):
        return cast("Callable[[str], Store]", point.load())
    return None


def _load(path: str) -> object:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
