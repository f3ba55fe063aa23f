"""The interface of an engine, which runs the jobs of a run.

There are two, ``spark`` and ``local``. ``engine.pipelines`` has the steps of a run whose size is
that of the data, written once on this interface: a new kind of run adds a module there, and no
method to an engine. The tests hold both engines to the same plans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from reclaim.clock import Clock
from reclaim.engine.answers import Objects, Surveyed
from reclaim.engine.rows import Rows
from reclaim.engine.tasks.keys import KeysOf
from reclaim.engine.tasks.parts import Part, Place
from reclaim.engine.work.lines import Lines, Work
from reclaim.storage import KeyRange, Storage
from reclaim.stores.format import DecodesSnapshots, Format, SurveysContainers


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks of the jobs that are at work: how many have finished, of how many."""

    finished: int
    total: int


class Meter(Protocol):
    """Tells how far an engine is, to people who watch; from any thread, and never an error."""

    def units(self) -> Mapping[str, int]:
        """The work that tasks have told of so far, by unit (``objects``, ``containers``).

        It only grows; the difference between two readings is what was done in between.
        """
        ...

    def tasks(self) -> Tasks:
        """The tasks of the jobs that are at work."""
        ...

    def close(self) -> None: ...


class JobRunner(Protocol):
    """Runs jobs: rows that are joined and grouped, and the work of tasks on them."""

    @property
    def clock(self) -> Clock:
        """The clock of the tasks."""
        ...

    @property
    def tasks(self) -> int:
        """How many tasks a large job is cut into."""
        ...

    @property
    def keys_of(self) -> KeysOf:
        """The hash by which addresses are compared."""
        ...

    def near(self, rows: int) -> JobRunner:
        """The runner of a job with so many rows: itself, or this process if they are few."""
        ...

    def can_load(self, rows: int) -> bool:
        """Whether each process can load so many keys, instead of joining by them."""
        ...

    def open(self, url: str) -> Storage:
        """A storage, as the tasks open it."""
        ...

    def spread(self, table: pa.Table) -> Rows:
        """Rows, each of which is worth a task."""
        ...

    def files(self, parts: Sequence[Part]) -> Rows:
        """Parts, for tasks to read."""
        ...

    def run(self, step: str, rows: Rows, work: Work, *, shuffled: int = 0) -> Lines:
        """Run a job whose tasks write files; each of them gives back a few lines.

        ``shuffled`` are the rows that have to be grouped or joined for it.
        """
        ...

    def collect(self, step: str, rows: Rows, *, shuffled: int = 0) -> Sequence[Any]:
        """Run a job that has few rows."""
        ...


class Engine(JobRunner, Protocol):
    """Runs the jobs of a run, and lists storage."""

    def start(self) -> None:
        """Return when the engine can work: before something is begun that must not wait for it."""
        ...

    def ended(self) -> bool:
        """Whether it is certain that no task of a job that failed is at work any more."""
        ...

    def list(self, format: Format, ranges: Sequence[KeyRange], place: Place) -> Objects:
        """List key ranges and write down what is there."""
        ...

    def survey(self, format: DecodesSnapshots, ranges: Sequence[KeyRange]) -> pa.Table:
        """List key ranges and read the snapshots in them: for stores whose graph is in files."""
        ...

    def survey_containers(
        self, format: SurveysContainers, ranges: Sequence[KeyRange], place: Place
    ) -> Surveyed:
        """Do the same, and write down what the snapshots list."""
        ...

    def snapshots(self, format: DecodesSnapshots, addresses: Sequence[str]) -> pa.Table:
        """Read some snapshots of such a store."""
        ...

    def noncurrent(self, format: Format, folders: Sequence[str]) -> tuple[int, int]:
        """How many versions a bucket keeps of what was deleted or replaced, and their bytes."""
        ...
