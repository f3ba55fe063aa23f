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
    """Result of a run on a store among several."""

    name: str
    store: Store | None
    """None if the store could not be opened."""
    done: GcResult | None = None
    error: Exception | None = None
    """Error raised by the run on this store."""


def collect_each(
    stores: Iterable[NamedStore],
    collect_one: Callable[[Store], GcResult],
    *,
    tell: Callable[[StoreOutcome], None],
) -> list[StoreOutcome]:
    """Collect several stores in turn. An error in a store does not stop the others.

    ``tell`` receives each result at once. All stores are done before the results are returned, so
    an error while they are shown leaves no store out.
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
