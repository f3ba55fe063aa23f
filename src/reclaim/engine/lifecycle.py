"""Requests that runs of lifecycle rules make to an engine, beside those of all runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from reclaim.engine.tasks.lifecycle import ReachNames
from reclaim.engine.tasks.lifecycle_ranges import Renumbering
from reclaim.engine.tasks.parts import Part, Place
from reclaim.policy.lifecycle.classes import BranchClasses
from reclaim.stores.format import Format


@dataclass(frozen=True, slots=True)
class RangesRequest:
    """Which metaranges to read: as ``METARANGES``, with what reaches them."""

    format: Format
    metaranges: pa.Table
    place: Place
    """For the ranges; the same as containers are written below it."""
    known: Sequence[Part] = ()
    """Ranges of an earlier run, as ``RANGES``, that are added to what is read."""
    renumbering: Renumbering | None = None
    """With it the bits of known ranges count; without, they are known to the index alone."""


@dataclass(frozen=True, slots=True)
class RangeFiles:
    """Ranges with the union of what reaches them, as ``RANGES``."""

    parts: Sequence[Part] = ()
    containers: Sequence[Part] = ()
    """Those that something reaches, and the metaranges that were read, as ``CONTAINERS``."""
    metaranges: int = 0
    """Metaranges that were read."""
    ranges: int = 0
    """Ranges that something reaches."""
    entries: int = 0
    """That these must have."""
    bytes: int = 0


@dataclass(slots=True)
class LifecycleRead:
    """How much there was to read of ranges that are in no index, and how much was read."""

    expected: int = 0
    expected_entries: int = 0
    ranges: int = 0
    entries: int = 0
    bytes: int = 0

    def add(self, other: LifecycleRead) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(frozen=True, slots=True)
class LifecycleIndexRequest:
    """Which containers to read for the index: the live ones among some, which are ranges."""

    format: Format
    containers: Sequence[Part]
    edges: Sequence[str]
    """Partitions at which the index is cut."""
    place: Place


@dataclass(frozen=True, slots=True)
class LifecycleIndex:
    """Parts of the index, and the ranges that they have the entries of, as ``RANGES``."""

    parts: Sequence[Part] = ()
    ranges: Sequence[Part] = ()
    read: LifecycleRead = field(default_factory=LifecycleRead)


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """What the last finished run left: then only what may have changed is looked at.

    Its files are in the storage with the URL ``url``.
    """

    url: str
    index: Sequence[Part]
    """The group of a part has its first and last partition, and its first and last day."""
    carried: Sequence[Part]
    """Addresses that a rule matched and that stayed."""
    ranges: Sequence[Part]
    """The ranges of then, as ``RANGES``, in the storage of the request's place: those that the
    index has."""
    classes: BranchClasses
    """The rules of then, at their dates."""


@dataclass(frozen=True, slots=True)
class LifecycleSearch:
    """How lifecycle rules find what may go: what is matched everywhere, whatever refers to it."""

    classes: BranchClasses
    names: ReachNames
    ranges: Sequence[Part]
    """The ranges of now, in the storage of the request's place."""
    edges: Sequence[str]
    """Partitions at which the index is cut."""
    index: Place
    found: Place
    """For rows, addresses and what is held, in the same storage."""
    earlier: EarlierRun | None = None
    indexed: LifecycleIndex | None = None
    """The index that a collection has read just before, in the storage of the request."""


@dataclass(slots=True)
class LifecycleFindings:
    """The notes of such a search, beside its candidates."""

    read: LifecycleRead = field(default_factory=LifecycleRead)
    index: Sequence[Part] = ()
    """Parts of the index, of the ranges that were read."""
    rows: Sequence[Part] = ()
    addresses: Sequence[Part] = ()
    held: Sequence[Part] = ()
    gone: int = 0
    """Addresses that would go and are not there any more."""
    index_bytes: int = 0
    """Bytes of the index and of carried addresses that were read."""
    objects: int = 0
    """Data objects that were listed."""


@dataclass(frozen=True, slots=True)
class RejudgeRequest:
    """Which addresses to judge again: those of a plan, by what reaches more since."""

    format: Format
    classes: BranchClasses
    metaranges: pa.Table
    """With the bits that are new, as ``METARANGES``."""
    ranges: Sequence[Part]
    """The ranges of the plan: only what is new to them is read."""
    rows: Sequence[Part]
    """The paths of the plan's addresses, as ``ROWS``."""
    place: Place
    """In the storage of the plan."""
    protect: Sequence[str] = ()
    """Globs of paths that hold what they match."""


@dataclass(frozen=True, slots=True)
class Rejudged:
    """Addresses that leave a plan, in files that are hashed by name, and what was read."""

    files: Sequence[str] = ()
    addresses: int = 0
    metaranges: int = 0
    expected: int = 0
    ranges: int = 0
    """Ranges that had to be read, and that were."""
    entries: int = 0


@dataclass(frozen=True, slots=True)
class LifecycleCarryRequest:
    """Which addresses stay although a rule matches them: what was held, and of the plan what was
    not taken."""

    held: Sequence[Part]
    planned: Sequence[Part]
    """The plan's candidates."""
    journal: Sequence[Part]
    source: Place
    place: Place


@dataclass(frozen=True, slots=True)
class PublishRequest:
    """Which addresses of a run to write down for people: as ``ADDRESSES``."""

    run: str
    addresses: Sequence[Part]
    url: str
    """The URL of the storage that they are in."""
    place: Place
