"""The Spark session: one, made by entry points and given to everything else.

A Connect server if one is named (``SPARK_REMOTE``), a cluster if its master is, otherwise this
machine. The defaults are small: what a run sends through Spark is little more than names of files.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from reclaim.errors import InvalidInput, Unavailable

MASTER_VARIABLE = "RECLAIM_SPARK_MASTER"
REMOTE_VARIABLE = "SPARK_REMOTE"
LOG_VARIABLE = "RECLAIM_SPARK_LOG"
LOCAL = "local[*]"

SETTINGS: Mapping[str, str] = {
    "spark.app.name": "reclaim",
    # Jobs have few rows and many bytes elsewhere; planning anew between stages costs more than
    # it could save.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
}
"""What a session is given wherever it runs."""

STATIC: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.log.level": "ERROR",
}
"""What can only be said before a session starts, so not to a Connect server."""


def build_session(
    *,
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Make the session of this process, or find the one that there is."""
    remote = remote or (None if master else os.environ.get(REMOTE_VARIABLE))
    master = master or os.environ.get(MASTER_VARIABLE) or LOCAL
    # Executors on this machine must run the same Python, with the same libraries.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen = {**SETTINGS, **(settings or {})}
    builder = SparkSession.builder
    if remote:
        builder = builder.remote(remote)
    else:
        _check_java()
        local = _local() if master.startswith("local") else {}
        chosen = {**STATIC, **local, **chosen}
        builder = builder.master(master)
    try:
        # A session that runs already is used as it is; what it cannot change any more stays.
        with _quiet():
            return builder.config(map=dict(chosen)).getOrCreate()
    except (PySparkException, RuntimeError, OSError) as error:
        where = remote or master
        said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise Unavailable(
            f"no Spark session on {where}: {said}",
            hint=f"check that it can be reached; {LOG_VARIABLE}=FILE keeps what Java has to say",
        ) from error


def _local() -> dict[str, str]:
    """Settings for this machine alone: loopback only, and no folder left where it was called."""
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "reclaim-spark"),
    }


@contextmanager
def _quiet() -> Iterator[None]:
    """Start Java with its messages going to a log file, if one is named, instead of to people."""
    sys.stderr.flush()
    log = os.open(os.environ.get(LOG_VARIABLE, os.devnull), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    kept = os.dup(2)
    try:
        os.dup2(log, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(log)


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return
    if shutil.which("java") is None:
        raise InvalidInput(
            "Spark needs Java, and there is none on this machine",
            hint="install Java 17 or newer, or name a Connect server in SPARK_REMOTE",
        )
