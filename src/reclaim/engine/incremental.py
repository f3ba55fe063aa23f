"""Requests of incremental runs, which start from a checkpoint and leave a new checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reclaim.engine.tasks.index import IndexCounts
from reclaim.engine.tasks.lookup import GuardCounts
from reclaim.engine.tasks.parts import Part, Place
from reclaim.stores.format import Format


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """Request to index live containers no earlier run has read."""

    format: Format
    containers: Sequence[Part]
    known: Sequence[Part]
    """Known containers: parts of any shape with an address, in the storage of the place."""
    edges: Sequence[str]
    """Partitions at which the index is cut."""
    place: Place


@dataclass(frozen=True, slots=True)
class Indexed:
    """Parts of the index, the containers whose entries they have, and the amount read."""

    parts: Sequence[Part] = ()
    ranges: Sequence[Part] = ()
    """As ``ADDRESSES``."""
    counts: IndexCounts = field(default_factory=IndexCounts)


@dataclass(frozen=True, slots=True)
class CarryRequest:
    """Request to carry addresses a run did not take, and to count taken objects by partition."""

    format: Format
    carried: Sequence[Part]
    """Parts of any shape with an address."""
    journal: Sequence[Part]
    source: Place
    place: Place
    final: frozenset[str] | None = None
    """Partitions the next run does not list; only their addresses are carried. None for all
    addresses."""


@dataclass(frozen=True, slots=True)
class Carried:
    """Remaining addresses, and taken objects by partition."""

    parts: Sequence[Part] = ()
    taken: GuardCounts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Copied:
    """Copied parts, and the bytes read to copy them."""

    parts: Sequence[Part] = ()
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """Request to copy parts."""

    parts: Sequence[Part]
    url: str
    """URL of the storage with the parts."""
    place: Place
    live: bool = False
    """Whether the parts list containers, of which only live ones are copied."""
