"""The process that Python workers are forked from: it has loaded what all of them need."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path


def serve() -> None:
    """Load what workers need, and fork one whenever Spark asks for it."""
    sys.path[:] = without_archives(sys.path)

    import pyarrow as pa
    from pyspark.daemon import manager

    from reclaim.engine.work import candidates, containers, listing, taking  # noqa: F401

    # The first array that is made of Python's values looks for pandas, and loads it.
    pa.array([0])
    # A worker looks for garbage after each task: not in what it was born with.
    gc.collect()
    gc.freeze()
    manager()


def without_archives(path: Sequence[str]) -> list[str]:
    """The folders to import from, without archives of the PySpark that is installed in one of them.

    Spark names them first, and what is imported from an archive is compiled anew in each process.
    Those of another PySpark stay: Spark has told what it works with.
    """
    folders = [folder for folder in path if not folder.endswith(".zip")]
    installed = PathFinder.find_spec("pyspark", folders)
    if installed is None or installed.origin is None or not PathFinder.find_spec("py4j", folders):
        return list(path)
    archives = Path(installed.origin).resolve().parent / "python" / "lib"
    return [one for one in path if Path(one).resolve().parent != archives]


if __name__ == "__main__":
    serve()
