"""The requests of a run to an engine; those of single kinds of runs are in files of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from reclaim.engine.answers import ContainerFiles, Objects, Surveyed
from reclaim.engine.lifecycle import (
    LifecycleSearch,
)
from reclaim.engine.tasks.deleting import Deleter
from reclaim.engine.tasks.judging import CandidateRules
from reclaim.engine.tasks.parts import Part, Place
from reclaim.engine.tasks.quarantine import Aside
from reclaim.engine.uncommitted import (
    UncommittedSearch,
)
from reclaim.stores.format import Format


@dataclass(frozen=True, slots=True)
class ExpandRequest:
    """Which containers to expand: those that snapshots name, as ``SNAPSHOT_CONTAINERS``."""

    format: Format
    containers: pa.Table
    place: Place
    known: Sequence[Part] = ()
    """Containers of which the live ones are left out."""
    surveyed: Surveyed | None = None
    """The files that a survey found in the storage of the place, so as not to read them again."""


@dataclass(frozen=True, slots=True)
class FindRequest:
    """Which objects to judge, and what is live."""

    format: Format
    objects: Objects
    containers: ContainerFiles
    held: Sequence[str]
    """Files with addresses, in the storage of the place."""
    rules: CandidateRules
    place: Place
    work: Place
    """For what is not needed afterwards, in the same storage."""
    search: UncommittedSearch | None = None
    """How to find them by the index, where that is there: then containers are not read."""
    lifecycle: LifecycleSearch | None = None
    """How to find them by lifecycle rules, whatever refers to them. Without parts of ``objects``
    they are looked up one by one."""


@dataclass(frozen=True, slots=True)
class ConfirmRequest:
    """Which candidates to look at once more, and what is live since they were found."""

    format: Format
    candidates: Sequence[Part]
    revived: ContainerFiles
    held: Sequence[str]
    closed: frozenset[str]
    """The guards that protect nothing any more."""
    done: Sequence[Part]
    """The journal of earlier applies."""
    place: Place
    work: Place


@dataclass(frozen=True, slots=True)
class ExcludeRequest:
    """Which candidates to part by globs, and where the two lists go."""

    candidates: Sequence[Part]
    globs: Sequence[str]
    included: Place
    excluded: Place
    earlier: Sequence[Part] = ()
    """Lists with paths that the plan does not show: of what earlier applies left out, and all those
    of what lifecycle rules match."""


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """Which candidates to take away, and for how long one may be at it."""

    format: Format
    candidates: Sequence[Part]
    kind: str
    done: Sequence[Part]
    """The journal of earlier waves."""
    deleter: Deleter
    time: timedelta
    place: Place


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """Lists of what a run was about to take, and its notes, all in the storage of ``source``."""

    intended: Sequence[Part]
    journal: Sequence[Part]
    notes: Sequence[Part]
    """Notes of tasks on the way. No list vouches for them: they tell of objects that are in one
    of the others, and add none."""
    source: Place
    aside: Aside | None
    """Where objects are now, if they were moved."""
    place: Place


@dataclass(frozen=True, slots=True)
class IncompleteRequest:
    """Which snapshot containers to check against what exists."""

    format: Format
    containers: pa.Table
    objects: Objects
    place: Place
    not_back: Sequence[Part] = ()
    """Journals of what was to be brought back, in the storage of the place. What failed does not
    count, whatever lies in its place."""
    aside: Aside | None = None
    """Where the objects of these journals were, if they had been moved."""
    expired: Sequence[Part] = ()
    """Addresses that rules took, in the storage of the place: nobody misses them."""


@dataclass(frozen=True, slots=True)
class NeededRequest:
    """Which snapshots runs can bring back, by the containers that they name: as ``PROMISED``."""

    format: Format
    containers: pa.Table
    place: Place
    known: Sequence[Part] = ()
    """Containers, in the storage of the place, of which the live ones are left out: what they list
    is needed anyway."""
