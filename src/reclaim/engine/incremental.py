"""Requests of runs that start from a checkpoint and leave one, whatever their kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reclaim.engine.tasks.index import IndexCounts
from reclaim.engine.tasks.looking_up import GuardCounts
from reclaim.engine.tasks.parts import Part, Place
from reclaim.stores.format import Format


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """Which containers to read for the index: the live ones that no earlier run has read."""

    format: Format
    containers: Sequence[Part]
    known: Sequence[Part]
    """Those that need not be read: parts of any shape with an address, in the storage of the
    place."""
    edges: Sequence[str]
    """Partitions at which the index is cut."""
    place: Place


@dataclass(frozen=True, slots=True)
class Indexed:
    """Parts of the index, the containers that they have the entries of, and what was read."""

    parts: Sequence[Part] = ()
    ranges: Sequence[Part] = ()
    """As ``ADDRESSES``."""
    counts: IndexCounts = field(default_factory=IndexCounts)


@dataclass(frozen=True, slots=True)
class CarryRequest:
    """Which of some addresses a run did not take, and how much it took of each partition."""

    format: Format
    carried: Sequence[Part]
    """Parts of any shape with an address."""
    journal: Sequence[Part]
    source: Place
    place: Place
    final: frozenset[str] | None = None
    """The partitions that the next run does not list: addresses elsewhere are not carried. None
    for all addresses."""


@dataclass(frozen=True, slots=True)
class Carried:
    """Addresses that are still there, and what is gone by partition."""

    parts: Sequence[Part] = ()
    taken: GuardCounts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Copied:
    """Parts that were copied, and how many bytes were read for it."""

    parts: Sequence[Part] = ()
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """Which parts to copy."""

    parts: Sequence[Part]
    url: str
    """The URL of the storage that they are in."""
    place: Place
    live: bool = False
    """Whether they are containers, of which the live ones alone are copied."""
