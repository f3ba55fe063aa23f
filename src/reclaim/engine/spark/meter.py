"""The meter of a session: reports the progress of its jobs to people who watch.

Task counts come from Spark's status tracker or, under Connect, from progress messages of the
server. On this machine alone, where a job has few tasks, tasks also report the objects they have
done; see ``reclaim.engine.tasks.tally``.
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
    """Counts of the jobs of a session. Close it when nobody watches any more."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._remote = ".connect." in type(spark).__module__
        self._hearer = _ProgressListener()
        self._folder = tempfile.mkdtemp(prefix="reclaim-") if self._is_here() else ""
        self._tallies = Tallies(self._folder)

    @property
    def folder(self) -> str:
        """Folder where tasks report their progress; empty if they run elsewhere."""
        return self._folder

    def units(self) -> Mapping[str, int]:
        return self._tallies.read() if self._folder else {}

    def tasks(self) -> Tasks:
        if self._remote:
            return self._hearer.tasks
        # A session being stopped has nothing to report.
        with suppress(Exception):
            return self._tracked()
        return NO_TASKS

    def close(self) -> None:
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Listen to a Connect server's progress messages about the job in the block."""
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
        # Missing under Connect, so imported only here.
        tracker = self._spark.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getActiveJobsIds()]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        known = [stage for stage in stages if stage]
        return Tasks(
            sum(stage.numCompletedTasks for stage in known),
            sum(stage.numTasks for stage in known),
        )

    def _is_here(self) -> bool:
        """Return whether tasks run on this machine as this user, and so share a folder."""
        if self._remote or os.name != "posix":
            return False
        master = str(self._spark.conf.get("spark.master", "") or "")
        return master == "local" or master.startswith("local[")


class _ProgressListener:
    """Records progress messages of a Connect server about a running job."""

    def __init__(self) -> None:
        self.tasks = NO_TASKS

    def __call__(self, stages: Iterable[Any] | None, **_: Any) -> None:
        counts = [(stage.num_completed_tasks, stage.num_tasks) for stage in stages or ()]
        self.tasks = Tasks(sum(done for done, _ in counts), sum(total for _, total in counts))
