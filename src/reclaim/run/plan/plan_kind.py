"""A kind of run: what a plan asks of it.

Each kind says where objects come from, which containers are live, and how a candidate is judged.
The plan itself, and the order of its steps, is the same for all (``planning``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa

from reclaim.engine.answers import Candidates, ContainerFiles, Objects, Surveyed
from reclaim.engine.requests import FindRequest
from reclaim.engine.tasks.parts import Part, Place
from reclaim.engine.tasks.shielding import Matches
from reclaim.errors import Corrupt, NotFound, PlanRefused
from reclaim.run.plan.context import PlanContext
from reclaim.run.plan.decide import Decided
from reclaim.run.plan.plan_document import NO_SECTIONS, PlanSections
from reclaim.stores.observation import Observation, Survey


@dataclass(frozen=True, slots=True)
class ObjectListing:
    """The objects to judge."""

    objects: Objects
    partitions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The partitions that were listed, with their folders."""
    survey: Survey | None = None
    """The snapshots that were read where they were listed."""
    surveyed: Surveyed | None = None
    """The containers of these snapshots, where they were read as well."""


@dataclass(frozen=True, slots=True)
class MarkedContainers:
    """The containers that snapshots need, and those that only dead snapshots have."""

    containers: ContainerFiles
    covering: Sequence[Part]
    """Containers whose entries stay anyway."""
    dead: ContainerFiles
    """Containers among which those of dead snapshots are."""
    listed_by_dead: Matches | None = None
    """The entries of dead containers, where they were read."""


@dataclass(frozen=True, slots=True)
class WhyFull:
    """Why a run that has started from a checkpoint is begun again as a full one."""

    why: str
    damaged: bool
    """Whether files of the checkpoint cannot be read: then its index is of no use either."""

    def goes_beyond(self, earlier: WhyFull | None) -> bool:
        """Whether the next attempt leaves out more than the attempt that failed."""
        return earlier is None or (self.damaged and not earlier.damaged)


class FullRunNeeded(Exception):
    """A run that starts from a checkpoint cannot be sure; says why."""


class PlanKind(ABC):
    """A kind of run, for one attempt at a plan."""

    takes_referenced: ClassVar[bool] = False
    """Whether it takes objects that live snapshots refer to."""

    def __init__(self, context: PlanContext) -> None:
        self.context = context

    @property
    @abstractmethod
    def lists_all(self) -> bool:
        """Whether all objects of the store are listed."""

    @abstractmethod
    def list(self, place: Place) -> ObjectListing:
        """The objects to judge, written down at a place."""

    @abstractmethod
    def mark(
        self, seen: Observation, decided: Decided, named: pa.Table, listing: ObjectListing
    ) -> MarkedContainers:
        """The containers of the ``named`` ones, which snapshots name themselves."""

    @abstractmethod
    def judge(self, request: FindRequest, seen: Observation) -> Candidates:
        """The objects that may go."""

    def counted(self, containers: ContainerFiles) -> ContainerFiles:
        """The containers, with the counts of what had to be read of them."""
        return containers

    def sections(self, seen: Observation, candidates: Candidates) -> PlanSections:  # noqa: ARG002
        """The sections of the plan that only this kind has."""
        return NO_SECTIONS

    def checkpoint_files(self) -> Collection[str]:
        """The addresses of the checkpoint that the run starts from, if there is one."""
        return ()

    def why_full(self, error: Exception) -> WhyFull | None:
        """Why a plan is begun again as a full run after an error; None if it is not."""
        if isinstance(error, FullRunNeeded):
            return WhyFull(str(error), damaged=False)
        if isinstance(error, NotFound | Corrupt | PlanRefused) and any(
            address in error.message for address in self.checkpoint_files()
        ):
            why = f"a file of the checkpoint or of the index is damaged: {error}"
            return WhyFull(why, damaged=True)
        return None


MakeKind = Callable[[PlanContext, WhyFull | None], PlanKind]
"""Makes a kind of run for an attempt. With a reason, a full one because of it."""
