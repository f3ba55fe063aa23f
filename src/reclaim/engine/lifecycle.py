"""Requests that runs of lifecycle rules make to an engine, beside those of all runs."""

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
    """Which metaranges to read: as ``METARANGES``, with what reaches them."""

    format: Format
    metaranges: pa.Table
    place: Place
    """For the ranges; the same as containers are written below it."""
    known: Sequence[Part] = ()
    """Ranges of an earlier run, as ``RANGES``, that are added to what is read, with the bits that
    they had."""
    renumbering: Renumbering | None = None
    """For these."""


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


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """What the last finished run left: then only what may have changed is looked at.

    Its files are in the storage with the URL of the search.
    """

    judged: Sequence[Part]
    """The parts of the index that it has judged. All others are looked at."""
    carried: Sequence[Part]
    """Addresses that a rule matched and that stayed."""
    ranges: Sequence[Part]
    """The ranges of then, as ``RANGES``, in the storage of the request's place."""
    classes: BranchClasses
    """The rules of then, at their dates."""


@dataclass(frozen=True, slots=True)
class LifecycleSearch:
    """How lifecycle rules find what may go: what is matched everywhere, whatever refers to it.

    The index has the entries of every range of now.
    """

    classes: BranchClasses
    names: ReachNames
    ranges: Sequence[Part]
    """The ranges of now, in the storage of the request's place."""
    edges: Sequence[str]
    """Partitions at which the work is cut."""
    url: str
    index: Sequence[Part]
    """Parts of earlier runs, in the storage with this URL. The group of a part has its first and
    last partition, and its first and last day."""
    fresh: Sequence[Part]
    """Parts of this run, in the storage of the request's place."""
    found: Place
    """For rows, addresses and what is held, in the same storage."""
    earlier: EarlierRun | None = None

    @property
    def unjudged(self) -> Sequence[Part]:
        """The parts of earlier runs that lifecycle rules have not judged."""
        judged = {part.address for part in self.earlier.judged} if self.earlier else frozenset()
        return [part for part in self.index if part.address not in judged]


@dataclass(slots=True)
class LifecycleFindings:
    """The notes of such a search, beside its candidates."""

    rows: Sequence[Part] = ()
    addresses: Sequence[Part] = ()
    held: Sequence[Part] = ()
    gone: int = 0
    """Addresses that would go and are not there any more."""
    index_bytes: int = 0
    """Bytes of the index and of carried addresses that were read, as earlier runs left them."""
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
class PublishRequest:
    """Which addresses of a run to write down for people: as ``ADDRESSES``."""

    run: str
    addresses: Sequence[Part]
    url: str
    """The URL of the storage that they are in."""
    place: Place
