"""What is wrong with a store that breaks the contract."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

Call = Callable[..., Any]
SHELF, CATALOG, TERMINUS = "shelf", "catalog", "terminus"
ICECHUNK_1, ICECHUNK_2 = "icechunk 1", "icechunk 2"


@dataclass(frozen=True)
class Break:
    """What is wrong with a store: an attribute of a class that is another."""

    owner: Any
    name: str
    wrong: Any
    subject: str = SHELF


def nothing(*_: Any, **__: Any) -> None:
    pass


def without_some(method: Call) -> Call:
    """A table without its first row."""
    return lambda *args, **options: method(*args, **options).slice(1)


def with_other(method: Call, **changes: Any) -> Call:
    return lambda *args, **options: replace(method(*args, **options), **changes)
