"""Number of cores of a session, and of the tasks its jobs are cut into."""

from __future__ import annotations

import os
import re

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from reclaim.engine.spark.session import tasks_in_environment

TASKS_PER_CORE = 2
"""More than one, to balance slow tasks."""
FEWEST = 2
"""Number of cores reported by a cluster without an executor."""
ASKED = 1_000_000
"""Numbers a cluster is asked to cut into as many pieces as it has cores."""

_LOCAL = re.compile(r"local(?:\[(\*|[0-9]+)(?:,[^]]*)?\])?")


def count_tasks(spark: SparkSession) -> int:
    """Return the number of tasks of a large job: from the environment, or two for each core."""
    return tasks_in_environment() or TASKS_PER_CORE * count_cores(spark)


def count_cores(spark: SparkSession) -> int:
    """Return the cores a session can use, as known now."""
    master = _LOCAL.fullmatch(str(spark.conf.get("spark.master", "") or ""))
    if master is None:
        cores = _ask(spark)
        # The first answer may come before there is an executor; now there is one.
        return max(cores, _ask(spark)) if cores <= FEWEST else cores
    if master[1] != "*":
        return int(master[1] or 1)
    # All cores of the driver's machine, which under Connect may be another machine.
    is_remote = ".connect." in type(spark).__module__
    return _ask(spark) if is_remote else len(os.sched_getaffinity(0))


def _ask(spark: SparkSession) -> int:
    """Return the number of pieces Spark makes by itself."""
    pieces = spark.range(ASKED).select(F.spark_partition_id().alias("piece"))
    (row,) = pieces.agg(F.max("piece").alias("last")).collect()
    return int(row["last"]) + 1
