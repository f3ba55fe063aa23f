"""Requests of a run to an engine. Requests of a single kind of run have modules of their own."""

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
from reclaim.engine.tasks.quarantine import QuarantineFolder
from reclaim.engine.uncommitted import (
    UncommittedSearch,
)
from reclaim.stores.format import Format


@dataclass(frozen=True, slots=True)
class ExpandRequest:
    """Request to expand the containers named by snapshots, as ``SNAPSHOT_CONTAINERS``."""

    format: Format
    containers: pa.Table
    place: Place
    known: Sequence[Part] = ()
    """Containers of which the live ones are left out."""
    surveyed: Surveyed | None = None
    """Files written by a survey, in the storage of the place, to avoid reading them again."""


@dataclass(frozen=True, slots=True)
class FindRequest:
    """Request to judge objects against live data."""

    format: Format
    objects: Objects
    containers: ContainerFiles
    held: Sequence[str]
    """Files with addresses, in the storage of the place."""
    rules: CandidateRules
    place: Place
    work: Place
    """Place for temporary files, in the same storage."""
    search: UncommittedSearch | None = None
    """Search by the index, if present; containers are not read then."""
    lifecycle: LifecycleSearch | None = None
    """Search by lifecycle rules, which ignores other references. Without parts of ``objects``,
    addresses are looked up one by one."""


@dataclass(frozen=True, slots=True)
class ConfirmRequest:
    """Request to check candidates again, against the live data of now."""

    format: Format
    candidates: Sequence[Part]
    revived: ContainerFiles
    held: Sequence[str]
    closed: frozenset[str]
    """Guards protecting nothing any more."""
    done: Sequence[Part]
    """Journal of earlier applies."""
    place: Place
    work: Place


@dataclass(frozen=True, slots=True)
class ExcludeRequest:
    """Request to split candidates into two lists by globs."""

    candidates: Sequence[Part]
    globs: Sequence[str]
    included: Place
    excluded: Place
    earlier: Sequence[Part] = ()
    """Lists with paths missing in the plan: objects left out by earlier applies, and all paths
    matched by lifecycle rules."""


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """Request to remove candidates, with a time limit."""

    format: Format
    candidates: Sequence[Part]
    kind: str
    done: Sequence[Part]
    """Journal of earlier waves."""
    deleter: Deleter
    time: timedelta
    place: Place


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """Request to recall a run, by its lists and notes, all in the storage of ``source``."""

    intended: Sequence[Part]
    journal: Sequence[Part]
    notes: Sequence[Part]
    """Notes of tasks. They are in no list, so they only describe objects of the other lists, and
    add none."""
    source: Place
    quarantine: QuarantineFolder | None
    """Quarantine of the objects, if they were moved."""
    place: Place


@dataclass(frozen=True, slots=True)
class IncompleteRequest:
    """Request to check snapshot containers against existing objects."""

    format: Format
    containers: pa.Table
    objects: Objects
    place: Place
    not_restored: Sequence[Part] = ()
    """Journals of an undo, in the storage of the place. An object whose restore failed does not
    count, even if another object is at its address."""
    quarantine: QuarantineFolder | None = None
    """Quarantine of the objects in these journals, if they were moved."""
    expired: Sequence[Part] = ()
    """Addresses taken by rules, in the storage of the place: they may be missing."""


@dataclass(frozen=True, slots=True)
class NeededRequest:
    """Request for the needs of restorable snapshots, by the containers they name, as
    ``PROMISED``."""

    format: Format
    containers: pa.Table
    place: Place
    known: Sequence[Part] = ()
    """Containers, in the storage of the place, of which the live ones are left out: their objects
    are needed anyway."""
