"""Stores by name: a repository of the catalog, or SCHEME:LOCATION for a store of another kind.

A kind is one line in ``OPENERS``, or an entry point of the group ``reclaim.stores`` in a package of
its own: a function that opens the store at a location. Nothing else names a kind of store. Where a
location may hold several stores, what is registered also finds all of them (``FindsStores``). A
store is refused unless all that it declares is complete (``check_declared``).
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
"""For each scheme the function that opens a store, as MODULE:FUNCTION."""


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")


class FindsStores(ABC):
    """The opener of a kind of store of which several may lie at one location."""

    @abstractmethod
    def __call__(self, location: str) -> Store:
        """Open the store at a location."""

    @abstractmethod
    def find_all(self, location: str) -> Iterable[str]:
        """The location of every store at a location, damaged ones too.

        Each is opened on its own, so that one that cannot be opened stops no other.
        """


@dataclass(frozen=True, slots=True)
class NamedStore:
    """A store that is not opened yet, by the name that commands give it."""

    name: str
    open: Callable[[], Store]


def schemes() -> Sequence[str]:
    """The schemes that come with Reclaim."""
    return sorted(OPENERS)


def _all_schemes() -> Sequence[str]:
    from importlib.metadata import entry_points

    return sorted({*OPENERS, *(point.name for point in entry_points(group=GROUP))})


def find_foreign(name: str) -> Store | None:
    """The store that a name with a scheme means, such as ``terminus:PATH``; None for our own."""
    opener = _find_opener(name)
    return None if opener is None else _open(opener, name.partition(":")[2])


def is_foreign(name: str) -> bool:
    """Whether a name means a store outside the catalog; an unknown scheme is refused."""
    return _find_opener(name) is not None


def _find_opener(name: str) -> Callable[[str], Store] | None:
    scheme, separator, _ = name.partition(":")
    opener = _opener(scheme) if separator else None
    if opener is None and separator and _SCHEME.fullmatch(scheme):
        # The name of a repository has no colon.
        raise InvalidInput(
            f"there is no kind of store {scheme!r}",
            hint=f"write a store as SCHEME:LOCATION, with one of the schemes "
            f"{', '.join(_all_schemes())}; a repository of the catalog by its name alone",
        )
    return opener


def find_several(name: str) -> Iterator[NamedStore]:
    """Every store at the location of a name with a scheme."""
    scheme, separator, location = name.partition(":")
    opener = _opener(scheme) if separator else None
    if opener is None:
        raise InvalidInput(
            f"STORE names one repository, {name}, and --all asks for all of them",
            hint="give one of them; or --all with SCHEME:LOCATION, where several stores are",
        )
    if not isinstance(opener, FindsStores):
        raise Refused(
            f"--all cannot find the {scheme} stores of a location",
            hint=f"leave --all out, and name each store: {scheme}:LOCATION",
        )
    for found in opener.find_all(location):
        yield NamedStore(name_of(scheme, found, found), partial(_open, opener, found))


def name_of(kind: str, name: str, uid: str) -> str:
    """How commands name a store."""
    if kind == "catalog":
        return name
    return f"{kind}:{path_of(uid) if uid.startswith('file:') else uid}"


def find(catalog: Catalog, name: str) -> Store:
    """A repository by name or, for a deleted one, by its uid."""
    return _of_catalog(catalog.workspace(name))


def find_all(catalog: Catalog) -> Iterator[Store]:
    """Every repository, deleted ones last."""
    return map(_of_catalog, catalog.workspaces())


def find_planned(catalog: Catalog, *, name: str, uid: str) -> Store:
    """The store that a plan was made for; a plan for one that is not here is refused."""
    try:
        return find(catalog, uid)
    except NotFound as error:
        raise PlanRefused(
            f"the plan is for the repository {name} ({uid}), which this catalog does not have",
            hint="name the catalog that it was made with: --catalog",
        ) from error


def check_planned(store: Store, *, kind: str, name: str, uid: str) -> None:
    """Refuse a plan that was made for another store than the one that was named."""
    if (store.kind, store.uid) != (kind, uid):
        raise PlanRefused(
            f"the plan is for {name} ({uid}), not for {store.name} ({store.uid})",
            hint="apply it to the store that it was made for",
        )


def check_declared(store: Store) -> None:
    """Refuse a store that does not implement, or does not declare, the whole of an ability.

    A run asks for abilities by their classes: a method of an ability that is not declared would
    never be called, and a step that keeps data would be left out in silence.
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
                    f"{owner.__name__} has {name} of {ability.__name__}, and does not declare it"
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
            "NeedsOtherSnapshots: the one needs the other"
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
