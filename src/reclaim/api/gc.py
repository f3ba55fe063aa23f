"""Plan and apply several stores, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from reclaim.api.store import GcResult
from reclaim.stores.base import Store
from reclaim.stores.registry import NamedStore


@dataclass(frozen=True, slots=True)
class StoreOutcome:
    """The end of a run on one store among many."""

    name: str
    store: Store | None
    """None if the store could not be opened."""
    done: GcResult | None = None
    error: Exception | None = None
    """The error that stopped the run on this store."""


def collect_each(
    stores: Iterable[NamedStore],
    collect_one: Callable[[Store], GcResult],
    *,
    tell: Callable[[StoreOutcome], None],
) -> list[StoreOutcome]:
    """Collect several stores, one after the other. An error of one of them stops no other.

    ``tell`` gets the outcome of each store as soon as it is known. All stores are done when this
    returns: whoever shows the outcomes can fail without a store being left out.
    """
    outcomes = []
    for named in stores:
        store: Store | None = None
        try:
            store = named.open()
            outcome = StoreOutcome(named.name, store, done=collect_one(store))
        except Exception as error:
            outcome = StoreOutcome(named.name, store, error=error)
        outcomes.append(outcome)
        # Whatever is wrong with telling it, the other stores have their turn.
        with suppress(Exception):
            tell(outcome)
    return outcomes
