"""The interface of an engine, which runs the jobs of a run.

There are two engines, ``spark`` and ``local``. ``engine.pipelines`` has the data-sized steps of a
run, written once on this interface: a new kind of run adds a module there, and no method to an
engine. Tests hold both engines to the same plans.
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
    """Finished and total tasks of the running jobs."""

    finished: int
    total: int


class Meter(Protocol):
    """Reports the progress of an engine to people who watch. Callable from any thread, never
    fails."""

    def units(self) -> Mapping[str, int]:
        """Return the work reported by tasks so far, by unit (``objects``, ``containers``).

        Counts only grow; the difference between two readings is the work done in between.
        """
        ...

    def tasks(self) -> Tasks:
        """Return the tasks of the running jobs."""
        ...

    def close(self) -> None: ...


class JobRunner(Protocol):
    """Runs jobs: joins and groups rows, and spreads work over tasks."""

    @property
    def clock(self) -> Clock:
        """The clock of the tasks."""
        ...

    @property
    def tasks(self) -> int:
        """Number of tasks a large job is cut into."""
        ...

    @property
    def keys_of(self) -> KeysOf:
        """The hash used to compare addresses."""
        ...

    def runner_for(self, rows: int) -> JobRunner:
        """Return the runner for a job of this many rows: itself, or this process for few rows."""
        ...

    def can_load(self, rows: int) -> bool:
        """Return whether each process can load this many keys instead of joining on them."""
        ...

    def open(self, url: str) -> Storage:
        """Open a storage as tasks do."""
        ...

    def spread(self, table: pa.Table) -> Rows:
        """Return rows, each worth a task of its own."""
        ...

    def files(self, parts: Sequence[Part]) -> Rows:
        """Return parts as rows, for tasks to read."""
        ...

    def run(self, step: str, rows: Rows, work: Work, *, shuffled: int = 0) -> Lines:
        """Run a job whose tasks write files and return a few lines each.

        ``shuffled`` is the number of rows the job groups or joins.
        """
        ...

    def collect(self, step: str, rows: Rows, *, shuffled: int = 0) -> Sequence[Any]:
        """Run a job with few rows."""
        ...


class Engine(JobRunner, Protocol):
    """Runs the jobs of a run, and lists storage."""

    def start(self) -> None:
        """Return once the engine can work. Call it before a step with a deadline."""
        ...

    def ended(self) -> bool:
        """Return whether no task of a failed job can still be running."""
        ...

    def list(self, format: Format, ranges: Sequence[KeyRange], place: Place) -> Objects:
        """List key ranges and write the listing."""
        ...

    def survey(self, format: DecodesSnapshots, ranges: Sequence[KeyRange]) -> pa.Table:
        """List key ranges and read the snapshots in them, for stores with a graph in files."""
        ...

    def survey_containers(
        self, format: SurveysContainers, ranges: Sequence[KeyRange], place: Place
    ) -> Surveyed:
        """Do the same, and write the containers each snapshot lists."""
        ...

    def snapshots(self, format: DecodesSnapshots, addresses: Sequence[str]) -> pa.Table:
        """Read some snapshots of such a store."""
        ...

    def noncurrent(self, format: Format, folders: Sequence[str]) -> tuple[int, int]:
        """Count noncurrent versions in a bucket, and their bytes."""
        ...
