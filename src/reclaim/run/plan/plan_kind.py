"""Kinds of runs: the interface between a kind of run and its plan.

Each kind defines the source of objects, the live containers, and how a candidate is judged. The
plan itself and the order of its steps are the same for all kinds (``planning``).
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
    """Objects to judge."""

    objects: Objects
    partitions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Folders of the listed partitions."""
    survey: Survey | None = None
    """Snapshots read during the listing."""
    surveyed: Surveyed | None = None
    """Containers of these snapshots, if they were read as well."""


@dataclass(frozen=True, slots=True)
class MarkedContainers:
    """Containers of snapshots, including those of dead snapshots only."""

    containers: ContainerFiles
    covering: Sequence[Part]
    """Containers whose entries stay in any case."""
    dead: ContainerFiles
    """Containers including those of dead snapshots."""
    listed_by_dead: Matches | None = None
    """Entries of dead containers, if they were read."""


@dataclass(frozen=True, slots=True)
class FullRunReason:
    """Reason to repeat an incremental run as a full run."""

    why: str
    damaged: bool
    """Whether files of the checkpoint cannot be read, which makes its index unusable too."""

    def goes_beyond(self, earlier: FullRunReason | None) -> bool:
        """Whether the next attempt uses less of the checkpoint than the failed attempt."""
        return earlier is None or (self.damaged and not earlier.damaged)


class FullRunNeeded(Exception):
    """Raised by an incremental run that cannot guarantee its result; the message has the reason."""


class PlanKind(ABC):
    """Kind of run, for a single attempt at a plan."""

    takes_referenced: ClassVar[bool] = False
    """Whether the run deletes objects referenced by live snapshots."""

    def __init__(self, context: PlanContext) -> None:
        self.context = context

    @property
    @abstractmethod
    def lists_all(self) -> bool:
        """Whether all objects of the store are listed."""

    @abstractmethod
    def list(self, place: Place) -> ObjectListing:
        """List the objects to judge in a folder."""

    @abstractmethod
    def mark(
        self, seen: Observation, decided: Decided, named: pa.Table, listing: ObjectListing
    ) -> MarkedContainers:
        """Find all containers of snapshots, starting at the ``named`` containers."""

    @abstractmethod
    def judge(self, request: FindRequest, seen: Observation) -> Candidates:
        """Find the objects to delete."""

    def counted(self, containers: ContainerFiles) -> ContainerFiles:
        """Return the containers with the counts of the required reads."""
        return containers

    def sections(self, seen: Observation, candidates: Candidates) -> PlanSections:  # noqa: ARG002
        """Sections of the plan specific to this kind."""
        return NO_SECTIONS

    def checkpoint_files(self) -> Collection[str]:
        """Addresses of the checkpoint the run starts from."""
        return ()

    def full_run_reason(self, error: Exception) -> FullRunReason | None:
        """Return the reason to repeat a plan as a full run after an error; None to fail."""
        if isinstance(error, FullRunNeeded):
            return FullRunReason(str(error), damaged=False)
        if isinstance(error, NotFound | Corrupt | PlanRefused) and any(
            address in error.message for address in self.checkpoint_files()
        ):
            why = f"a file of the checkpoint or of the index is damaged: {error}"
            return FullRunReason(why, damaged=True)
        return None


MakeKind = Callable[[PlanContext, FullRunReason | None], PlanKind]
"""Makes a kind of run for an attempt. With a reason, makes a full run."""
