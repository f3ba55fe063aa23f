"""The process Python workers are forked from, with all modules loaded that workers need."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path


def serve() -> None:
    """Load the modules workers need, and fork a worker whenever Spark asks for it."""
    sys.path[:] = without_archives(sys.path)

    import pyarrow as pa
    from pyspark.daemon import manager

    from reclaim.engine.work import candidates, containers, listing, sweeping  # noqa: F401

    # The first array made of Python values looks for pandas, and loads it.
    pa.array([0])
    # Workers run the garbage collector after each task, but not on objects from before the fork.
    gc.collect()
    gc.freeze()
    manager()


def without_archives(path: Sequence[str]) -> list[str]:
    """Return the import path without archives of the installed PySpark.

    Spark puts them first, and modules from an archive are compiled again in each process. Archives
    of another PySpark stay: Spark has chosen it.
    """
    folders = [folder for folder in path if not folder.endswith(".zip")]
    installed = PathFinder.find_spec("pyspark", folders)
    if installed is None or installed.origin is None or not PathFinder.find_spec("py4j", folders):
        return list(path)
    archives = Path(installed.origin).resolve().parent / "python" / "lib"
    return [entry for entry in path if Path(entry).resolve().parent != archives]


if __name__ == "__main__":
    serve()
