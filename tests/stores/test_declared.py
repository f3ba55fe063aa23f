"""A store that does not implement, or does not declare, the whole of an ability is not opened."""

from __future__ import annotations

from abc import update_abstractmethods
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest

from reclaim.errors import Refused
from reclaim.stores import abilities
from reclaim.stores.abilities import ABILITIES, HeldBackups, KeepsBackups
from reclaim.stores.base import Held, Store
from reclaim.stores.format import Format
from reclaim.stores.registry import OPENERS, check_declared, find, find_foreign
from reclaim.stores.sidecar.held import HeldSidecar
from reclaim.testing import FakeClock
from tests.collect.helpers import world as collect
from tests.conftest import Backend
from tests.icechunk.repositories import SPECS, WrittenRepository
from tests.stores.shelf.held import HeldShelf
from tests.stores.shelf.store import ShelfStore
from tests.stores.shelf.world import NAME, World
from tests.terminus import world as terminus

Open = Callable[[], Store | None]
KINDS = ("catalog", "shelf", "terminus", *(f"icechunk {spec}" for spec in SPECS))


@pytest.fixture(params=KINDS)
def opened(
    request: pytest.FixtureRequest,
    folder: Path,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    registered: None,
) -> Open:
    """Opens a store of each kind, as a command does by its name."""
    kind, _, spec = str(request.param).partition(" ")
    if kind == "catalog":
        backend: Backend = request.getfixturevalue("embedded")
        catalog = collect.World.make(backend).opened()
        return lambda: find(catalog, collect.NAME)
    if kind == "shelf":
        World.make(folder, clock)
        location = str(folder / NAME)
    elif kind == "terminus":
        terminus.make_world(folder, clock, monkeypatch)
        location = str(folder / "store")
    else:
        location = str(WrittenRepository.create(folder / "repository", int(spec)).folder)
    return lambda: find_foreign(f"{kind}:{location}")


def owners_of(store: Store) -> Sequence[type]:
    return type(store), store.handle, type(store.format)


def required(owner: type) -> set[str]:
    """The methods and properties that a class declares."""
    return {
        name
        for base in owner.__mro__
        for name, member in vars(base).items()
        if getattr(member, "__isabstractmethod__", False)
    }


@contextmanager
def without(owner: type, name: str) -> Iterator[None]:
    """A class, and its bases, as if they had another name for a method."""
    with pytest.MonkeyPatch.context() as patch:
        for base in owner.__mro__:
            if getattr(vars(base).get(name), "__isabstractmethod__", False):
                break
            if name in vars(base):
                patch.delattr(base, name)
        refresh(owner)
        yield
    refresh(owner)


def refresh(owner: type) -> None:
    for base in reversed(owner.__mro__):
        update_abstractmethods(base)


def test_a_store_without_one_of_its_methods_is_not_opened(opened: Open) -> None:
    store = opened()
    assert store is not None
    roots = (Store, Held, Format)
    for owner, root in zip(owners_of(store), roots, strict=True):
        names = required(owner)
        assert names >= required(root)
        for ability in ABILITIES:
            if issubclass(owner, ability):
                assert names >= required(ability) > set()
        for name in sorted(names):
            with without(owner, name), pytest.raises(Refused, match=rf"\b{name} of ") as failure:
                opened()
            assert owner.__name__ in failure.value.message
            assert failure.value.hint
    assert opened() is not None


def test_every_registered_kind_is_looked_at(opened: Open) -> None:
    store = opened()
    assert store is not None
    assert {*OPENERS, "catalog", "shelf"} == {kind.split()[0] for kind in KINDS}
    assert store.kind in KINDS or f"{store.kind} 1" in KINDS


def test_every_class_with_abstract_methods_is_listed_as_an_ability() -> None:
    declared = {
        ability
        for module in iter_modules(abilities.__path__)
        for ability in vars(import_module(f"{abilities.__name__}.{module.name}")).values()
        if isinstance(ability, type)
        and ability.__module__.startswith(abilities.__name__)
        and getattr(ability, "__abstractmethods__", None)
    }
    assert declared
    assert declared <= ABILITIES


def test_every_ability_is_of_some_store() -> None:
    """So that the methods of each are gone through above."""
    from reclaim.stores.catalog import CatalogStore
    from reclaim.stores.catalog.format import CatalogFormat
    from reclaim.stores.catalog.held import HeldRepository
    from reclaim.stores.icechunk.format import IcechunkFormat
    from reclaim.stores.icechunk.held_repo import HeldRepo
    from reclaim.stores.icechunk.store import IcechunkStore
    from reclaim.stores.terminus.store import TerminusStore

    stores = (CatalogStore, HeldRepository, CatalogFormat, TerminusStore)
    others = (IcechunkStore, HeldRepo, IcechunkFormat)
    assert {base for owner in (*stores, *others) for base in owner.__mro__} >= ABILITIES


def shelf(folder: Path, clock: FakeClock, kind: type[ShelfStore] = ShelfStore) -> ShelfStore:
    World.make(folder, clock)
    return kind(str(folder / NAME), clock=clock)


def refused(store: Any) -> str:
    with pytest.raises(Refused) as failure:
        check_declared(store)
    return failure.value.message


class Forgetful(ShelfStore):
    def keep_whole(self) -> None: ...


class HalfStore(ShelfStore, KeepsBackups):
    def collect_backups(self) -> None: ...


class HalfHandle(HeldShelf, HeldBackups):
    def free_kinds(self, kinds: Any) -> None: ...


class NoQuarantine(HeldSidecar): ...


def test_a_method_of_an_ability_that_is_not_declared_is_refused(
    folder: Path, clock: FakeClock
) -> None:
    message = refused(shelf(folder, clock, Forgetful))
    assert message == "Forgetful has keep_whole of NeedsOtherSnapshots without declaring it"


def test_half_an_ability_is_refused(
    folder: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "HeldShelf declares no HeldBackups" in refused(shelf(folder, clock, HalfStore))
    store = ShelfStore(str(folder / NAME))
    monkeypatch.setattr(ShelfStore, "handle", HalfHandle)
    assert "ShelfStore declares no KeepsBackups" in refused(store)
    monkeypatch.setattr(ShelfStore, "handle", NoQuarantine)
    assert "of HeldQuarantine without declaring it" in refused(store)


def test_an_order_of_deletes_needs_a_format_with_one(
    folder: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = shelf(folder, clock)
    monkeypatch.setattr(type(store.format), "sequential", True)
    assert "NeedsOtherSnapshots" in refused(store)


def test_a_class_that_only_looks_like_a_store_is_refused(folder: Path, clock: FakeClock) -> None:
    class Lookalike:
        def __init__(self, store: ShelfStore) -> None:
            self._store = store
            self.handle, self.format = store.handle, store.format

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

    assert "does not inherit from Store" in refused(Lookalike(shelf(folder, clock)))
