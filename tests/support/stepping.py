"""Stores of which every call that matters is a step, so that something can happen between two."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from reclaim.stores.base import Held, Store

Step = Callable[[str], None]
AnyStore = TypeVar("AnyStore", bound=Store)


def stepped(store: AnyStore, step: Step, names: Iterable[str]) -> AnyStore:
    """The store: ``step`` is told before and after each call of it, and of it when it is held."""
    watched = frozenset(names)
    take = store.lock

    @contextmanager
    def lock(run_id: str) -> Iterator[Held]:
        with take(run_id) as held:
            yield _watch(held, watched, step)

    _watch(store, watched, step)
    store.lock = lock  # type: ignore[method-assign]
    return store


def _watch(subject: Any, names: Iterable[str], step: Step) -> Any:
    for name in names:
        if hasattr(subject, name):
            setattr(subject, name, _around(name, getattr(subject, name), step))
    return subject


def _around(name: str, call: Callable[..., Any], step: Step) -> Callable[..., Any]:
    def stepping(*args: Any, **kwargs: Any) -> Any:
        step(f"before {name}")
        result = call(*args, **kwargs)
        step(f"after {name}")
        return result

    return stepping
