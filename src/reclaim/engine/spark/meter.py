"""The meter of a session: how far its jobs are, for people who watch.

Spark's own counts of tasks come from its status tracker or, under Connect, from the progress that
the server sends along. On this machine alone, where a job has few tasks, they also tell how many
objects they have done; see ``reclaim.engine.tasks.tally``.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from pyspark.sql import SparkSession

from reclaim.engine.base import Tasks
from reclaim.engine.tasks.tally import Tallies

NO_TASKS = Tasks(0, 0)


class SparkMeter:
    """Counts of the jobs of one session. To be closed when nobody watches any more."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._remote = ".connect." in type(spark).__module__
        self._hearer = _Hearer()
        self._folder = tempfile.mkdtemp(prefix="reclaim-") if self._is_here() else ""
        self._tallies = Tallies(self._folder)

    @property
    def folder(self) -> str:
        """Where tasks tell what they have done; empty if they run elsewhere."""
        return self._folder

    def units(self) -> Mapping[str, int]:
        return self._tallies.read() if self._folder else {}

    def tasks(self) -> Tasks:
        if self._remote:
            return self._hearer.tasks
        # A session that is being stopped has nothing to tell.
        with suppress(Exception):
            return self._tracked()
        return NO_TASKS

    def close(self) -> None:
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Listen to what a Connect server tells of the job in the block."""
        if not self._remote:
            yield
            return
        self._spark.registerProgressHandler(self._hearer)  # type: ignore[arg-type]
        try:
            yield
        finally:
            self._spark.removeProgressHandler(self._hearer)  # type: ignore[arg-type]
            self._hearer.tasks = NO_TASKS

    def _tracked(self) -> Tasks:
        # Not there under Connect, hence only here.
        tracker = self._spark.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getActiveJobsIds()]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        known = [stage for stage in stages if stage]
        return Tasks(
            sum(stage.numCompletedTasks for stage in known),
            sum(stage.numTasks for stage in known),
        )

    def _is_here(self) -> bool:
        """Whether tasks run on this machine and by this user, so that they share a folder."""
        if self._remote or os.name != "posix":
            return False
        master = str(self._spark.conf.get("spark.master", "") or "")
        return master == "local" or master.startswith("local[")


class _Hearer:
    """Notes what a Connect server tells of a job that is at work."""

    def __init__(self) -> None:
        self.tasks = NO_TASKS

    def __call__(self, stages: Iterable[Any] | None, **_: Any) -> None:
        counts = [(stage.num_completed_tasks, stage.num_tasks) for stage in stages or ()]
        self.tasks = Tasks(sum(done for done, _ in counts), sum(total for _, total in counts))
