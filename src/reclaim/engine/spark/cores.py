"""How many cores a session has, and so how many tasks its jobs are worth being cut into."""

from __future__ import annotations

import os
import re

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from reclaim.engine.spark.session import tasks_in_environment

TASKS_PER_CORE = 2
"""More than one, so that a task that takes longer than the others is made up for."""
FEWEST = 2
"""The number of cores that a cluster without an executor reports."""
ASKED = 1_000_000
"""Numbers that a cluster is asked to cut into as many pieces as it has cores."""

_LOCAL = re.compile(r"local(?:\[(\*|[0-9]+)(?:,[^]]*)?\])?")


def count_tasks(spark: SparkSession) -> int:
    """How many tasks a large job has: what the environment says, otherwise two for each core."""
    return tasks_in_environment() or TASKS_PER_CORE * count_cores(spark)


def count_cores(spark: SparkSession) -> int:
    """The cores that a session can use, as far as it knows of them now."""
    master = _LOCAL.fullmatch(str(spark.conf.get("spark.master", "") or ""))
    if master is None:
        cores = _ask(spark)
        # The first answer may have come before an executor had; now there is one.
        return max(cores, _ask(spark)) if cores <= FEWEST else cores
    if master[1] != "*":
        return int(master[1] or 1)
    # All cores of the machine that the driver is on, which may be another one under Connect.
    is_remote = ".connect." in type(spark).__module__
    return _ask(spark) if is_remote else len(os.sched_getaffinity(0))


def _ask(spark: SparkSession) -> int:
    """As many pieces as Spark makes of something by itself."""
    pieces = spark.range(ASKED).select(F.spark_partition_id().alias("piece"))
    (row,) = pieces.agg(F.max("piece").alias("last")).collect()
    return int(row["last"]) + 1
