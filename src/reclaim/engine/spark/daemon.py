"""The process that Python workers are forked from: it has loaded what all of them need."""

from __future__ import annotations

import pyarrow as pa
from pyspark.daemon import manager

from reclaim.engine.spark.work import candidates, containers, listing, taking  # noqa: F401

if __name__ == "__main__":
    # The first array that is made of Python's values looks for pandas, and loads it.
    pa.array([0])
    manager()
