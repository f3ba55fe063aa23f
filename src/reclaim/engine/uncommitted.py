"""Requests that runs on uncommitted data make to an engine, beside those of all runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reclaim.engine.tasks.dead_entries import DeadCounts
from reclaim.engine.tasks.looking_up import GuardCounts
from reclaim.engine.tasks.parts import Part, Place
from reclaim.stores.format import Format


@dataclass(frozen=True, slots=True)
class DeadRequest:
    """Which dead containers to read: those among some containers."""

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
    """How to find candidates by the index, and what to note for the next run.

    Parts of earlier runs are in the storage with the URL ``url``, those of this run in the storage
    of the request's place.
    """

    url: str
    index: Sequence[Part]
    """Parts of earlier runs that may have what is looked for."""
    fresh: Sequence[Part]
    """Parts of this run: of containers that no earlier one has indexed."""
    dead: Sequence[Part]
    """The entries of dead containers, as ``READ``."""
    carried: Sequence[Part]
    """Addresses that the checkpoint carries."""
    unlisted: frozenset[str]
    """The partitions that were not listed: carried addresses there, and those of dead containers,
    are looked up."""
    below: str
    """The folder that the run is limited to; "" for none."""
    carry: Place
    """For the addresses that nothing live lists."""


@dataclass(slots=True)
class UncommittedFindings:
    """The notes of a search, beside its candidates."""

    carried: Sequence[Part] = ()
    guards: GuardCounts = field(default_factory=dict)
    """Listed objects and bytes by partition."""
    committed: int = 0
    """How many addresses live containers were found to list or are, each once; for a search that
    is limited to a folder."""
    looked_up: int = 0
    """Objects that were looked up by their addresses and are there."""
    missing: GuardCounts = field(default_factory=dict)
    """How many were looked up and are not there, by partition: somebody has deleted them."""
    bytes: int = 0
    """Bytes of the index and of checkpoints that were read."""
