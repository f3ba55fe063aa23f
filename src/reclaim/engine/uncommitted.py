"""Requests to an engine made only by runs on uncommitted data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reclaim.engine.tasks.dead_entries import DeadCounts
from reclaim.engine.tasks.lookup import GuardCounts
from reclaim.engine.tasks.parts import Part, Place
from reclaim.stores.format import Format


@dataclass(frozen=True, slots=True)
class DeadRequest:
    """Request to read the dead containers among some containers."""

    format: Format
    containers: Sequence[Part]
    place: Place


@dataclass(frozen=True, slots=True)
class DeadEntries:
    """The entries of dead containers, as ``READ``, and the containers themselves."""

    parts: Sequence[Part] = ()
    counts: DeadCounts = field(default_factory=DeadCounts)


@dataclass(frozen=True, slots=True)
class UncommittedSearch:
    """Search for candidates by the index, with notes for the next run.

    Parts of earlier runs are in the storage with the URL ``url``, those of this run in the storage
    of the request's place.
    """

    url: str
    index: Sequence[Part]
    """Parts of earlier runs with possible matches."""
    fresh: Sequence[Part]
    """Parts of this run: of containers no earlier run has indexed."""
    dead: Sequence[Part]
    """The entries of dead containers, as ``READ``."""
    carried: Sequence[Part]
    """Addresses carried by the checkpoint."""
    unlisted: frozenset[str]
    """Partitions not listed: their carried addresses, and those from dead containers, are looked
    up."""
    below: str
    """The folder the run is limited to; "" for none."""
    carry: Place
    """Place for the addresses no live container lists."""


@dataclass(slots=True)
class UncommittedFindings:
    """The notes of a search, in addition to its candidates."""

    carried: Sequence[Part] = ()
    guards: GuardCounts = field(default_factory=dict)
    """Listed objects and bytes by partition."""
    committed: int = 0
    """Number of distinct live addresses, in containers or as containers; for a search limited to a
    folder."""
    looked_up: int = 0
    """Existing objects looked up by address."""
    missing: GuardCounts = field(default_factory=dict)
    """Missing objects among those looked up, by partition: somebody has deleted them."""
    bytes: int = 0
    """Bytes read of the index and of checkpoints."""
