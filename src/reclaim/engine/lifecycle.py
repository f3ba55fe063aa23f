"""Requests to an engine made only by lifecycle runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from reclaim.engine.tasks.lifecycle import ReachNames
from reclaim.engine.tasks.lifecycle_ranges import Renumbering
from reclaim.engine.tasks.parts import Part, Place
from reclaim.policy.lifecycle.classes import BranchClasses
from reclaim.stores.format import Format


@dataclass(frozen=True, slots=True)
class RangesRequest:
    """Request to read metaranges, as ``METARANGES``, with the branches and commits reaching
    them."""

    format: Format
    metaranges: pa.Table
    place: Place
    """Place for the ranges. Containers are written below it, too."""
    known: Sequence[Part] = ()
    """Ranges of an earlier run, as ``RANGES``, added with their bits to the result."""
    renumbering: Renumbering | None = None
    """For the ranges of the earlier run."""


@dataclass(frozen=True, slots=True)
class RangeFiles:
    """Ranges with the union of the bits reaching them, as ``RANGES``."""

    parts: Sequence[Part] = ()
    containers: Sequence[Part] = ()
    """Reached ranges, and the metaranges read, as ``CONTAINERS``."""
    metaranges: int = 0
    """Number of metaranges read."""
    ranges: int = 0
    """Number of reached ranges."""
    entries: int = 0
    """Entries the reached ranges must have."""
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """State of the last finished run, which limits the search to possible changes.

    Its files are in the storage with the URL of the search.
    """

    judged: Sequence[Part]
    """Parts of the index it has judged. All others are judged now."""
    carried: Sequence[Part]
    """Addresses matched by a rule and kept."""
    ranges: Sequence[Part]
    """Its ranges, as ``RANGES``, in the storage of the request's place."""
    classes: BranchClasses
    """Its rules, at their dates."""


@dataclass(frozen=True, slots=True)
class LifecycleSearch:
    """Search by lifecycle rules, for objects with a matching rule on every path and branch.

    The index has the entries of every current range.
    """

    classes: BranchClasses
    names: ReachNames
    ranges: Sequence[Part]
    """Current ranges, in the storage of the request's place."""
    edges: Sequence[str]
    """Partitions at which the work is cut."""
    url: str
    index: Sequence[Part]
    """Parts of earlier runs, in the storage with this URL. The group of a part has its first and
    last partition, and its first and last day."""
    fresh: Sequence[Part]
    """Parts of this run, in the storage of the request's place."""
    results: Place
    """Place for rows, addresses and held addresses, in the same storage."""
    earlier: EarlierRun | None = None

    @property
    def unjudged(self) -> Sequence[Part]:
        """Parts of earlier runs not judged by lifecycle rules."""
        judged = {part.address for part in self.earlier.judged} if self.earlier else frozenset()
        return [part for part in self.index if part.address not in judged]


@dataclass(slots=True)
class LifecycleFindings:
    """Notes of such a search, in addition to its candidates."""

    rows: Sequence[Part] = ()
    addresses: Sequence[Part] = ()
    held: Sequence[Part] = ()
    gone: int = 0
    """Addresses selected by rules but missing in storage."""
    index_bytes: int = 0
    """Bytes read of the index and carried addresses of earlier runs."""
    objects: int = 0
    """Listed data objects."""


@dataclass(frozen=True, slots=True)
class RejudgeRequest:
    """Request to judge the addresses of a plan again, by references added since."""

    format: Format
    classes: BranchClasses
    metaranges: pa.Table
    """As ``METARANGES``, with the new bits."""
    ranges: Sequence[Part]
    """Ranges of the plan: only bits new to them are read."""
    rows: Sequence[Part]
    """Paths of the plan's addresses, as ``ROWS``."""
    place: Place
    """In the storage of the plan."""
    protect: Sequence[str] = ()
    """Globs of protected paths."""


@dataclass(frozen=True, slots=True)
class Rejudged:
    """Addresses removed from a plan, in files hashed by name, and the amount read."""

    files: Sequence[str] = ()
    addresses: int = 0
    metaranges: int = 0
    expected: int = 0
    ranges: int = 0
    """Ranges to read, all of which were read."""
    entries: int = 0


@dataclass(frozen=True, slots=True)
class PublishRequest:
    """Request to publish the addresses of a run, as ``ADDRESSES``."""

    run: str
    addresses: Sequence[Part]
    url: str
    """URL of the storage with the addresses."""
    place: Place
