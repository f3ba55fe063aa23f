"""The Spark session, made by entry points and passed to everything else.

A Connect server if ``SPARK_REMOTE`` is set, a cluster if a master is set, otherwise this machine. A
program started by ``spark-submit`` keeps its session. The defaults are small: a run sends little
more than names of files through Spark.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from reclaim.engine.spark.class_archive import ClassArchive
from reclaim.errors import InvalidInput, Unavailable
from reclaim.process import DRIVER_VARIABLE, Process
from reclaim.urls import redacted, scrubbed

MASTER_VARIABLE = "RECLAIM_SPARK_MASTER"
REMOTE_VARIABLE = "SPARK_REMOTE"
LOG_VARIABLE = "RECLAIM_SPARK_LOG"
JAVA_VARIABLE = "RECLAIM_SPARK_JAVA"
SUBMITTED_VARIABLE = "PYSPARK_GATEWAY_PORT"
PROXY_VARIABLES = ("grpc_proxy", "https_proxy", "http_proxy")
LOCAL = "local[*]"
_IN_ONE_JAVA = re.compile(r"local(\[[^\]]*\])?")
CONNECT_PORT = 15002
OLDEST = (4, 1)
"""Oldest supported Spark: the first version to send rows to the task they name."""
REACH_SECONDS = 10

TASKS_VARIABLE = "RECLAIM_SPARK_TASKS"
PARTITIONS = "spark.sql.shuffle.partitions"

SETTINGS: Mapping[str, str] = {
    "spark.app.name": "reclaim",
    # Jobs have few rows and many bytes elsewhere; planning again between stages costs more than it
    # could save.
    "spark.sql.adaptive.enabled": "false",
    # A side of a join read by tasks looks as small as the list of its files: Spark would send all
    # of it to the driver, and from there to every executor.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
}
"""Settings of every session, wherever it runs."""

STATIC: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.log.level": "ERROR",
}
"""Settings that only count before a session starts, so not for a Connect server."""


def build_session(
    *,
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
    silent: bool = False,
) -> SparkSession:
    """Make the session of this process, or return the existing session.

    ``master`` overrides the environment, where a Connect server overrides a master. With
    ``silent``, Java writes nothing to stdout; it never writes to stderr.
    """
    remote = remote or (None if master else os.environ.get(REMOTE_VARIABLE))
    master = master or os.environ.get(MASTER_VARIABLE)
    # Executors on this machine must run the same Python, with the same libraries.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    tasks_in_environment()
    chosen = {**SETTINGS, **(settings or {})}
    try:
        # A running session is used as it is; settings it can no longer change stay.
        with _kept_interrupts(), _log_file() as log:
            if remote:
                _check_remote(remote)
                _check_reachable(remote)
                with _redirected_output(log, silent=silent):
                    builder = SparkSession.builder.remote(remote)
                    return _checked_version(builder.config(map=dict(chosen)).getOrCreate())
            with _variable_unset(REMOTE_VARIABLE):
                return _checked_version(_classic(master, chosen, log, silent=silent))
    except (PySparkException, Py4JError, RuntimeError, OSError) as error:
        where = remote or master or LOCAL
        said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise Unavailable(
            f"no Spark session on {redacted(where)}: {scrubbed(said, where)}",
            hint=f"check that it can be reached; {LOG_VARIABLE}=FILE keeps the output of Java",
        ) from error


def _checked_version(session: SparkSession) -> SparkSession:
    """Return the session, or refuse it if its Spark is too old. It may differ from the installed
    Spark."""
    major, minor, *_ = map(int, re.findall(r"[0-9]+", session.version))
    if (major, minor) < OLDEST:
        raise Unavailable(
            f"Reclaim needs Spark {OLDEST[0]}.{OLDEST[1]} or newer; this session runs on Spark "
            f"{session.version}",
            hint=f"upgrade the cluster, or unset {REMOTE_VARIABLE} and {MASTER_VARIABLE} to run on "
            "this machine",
        )
    return session


def works_here(session: SparkSession) -> bool:
    """Return whether all tasks of a session run in processes started by the Java of this
    process."""
    try:
        context = session.sparkContext
        mark = context._jvm.java.lang.System.getenv(DRIVER_VARIABLE)  # type: ignore[union-attr]
    except (PySparkException, Py4JError, AttributeError):
        # A Connect server.
        return False
    own = Process.current()
    return (
        bool(_IN_ONE_JAVA.fullmatch(context.master or "")) and own is not None and mark == own.mark
    )


def _classic(
    master: str | None, settings: Mapping[str, str], log: int, *, silent: bool
) -> SparkSession:
    builder = SparkSession.builder
    if master is None and SUBMITTED_VARIABLE in os.environ:
        # It has a driver and a master already, with the settings it was submitted with.
        with _redirected_output(log, silent=silent):
            return builder.config(map=dict(settings)).getOrCreate()
    master = master or LOCAL
    _check_java()
    _check_reachable(master)
    local = _local() if master.startswith("local") else {}
    settings = {"spark.master": master, **STATIC, **local, **settings}
    if SparkContext._gateway is None:
        # As a session would, except for the destination of Java's output.
        output = subprocess.DEVNULL if silent else None
        with _driver_mark():
            SparkContext._gateway = launch_gateway(  # type: ignore[no-untyped-call]
                SparkConf(loadDefaults=False).setAll(list(settings.items())),
                # Ctrl-C is for this process, which ends its jobs in order.
                {"stdout": output, "stderr": log, "start_new_session": True},
            )
        SparkContext._jvm = SparkContext._gateway.jvm
    return builder.config(map=dict(settings)).getOrCreate()


def _local() -> dict[str, str]:
    """Return settings for this machine alone: loopback only, and no folders left behind."""
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": _java_options_with_archive(),
        "spark.python.daemon.module": "reclaim.engine.spark.daemon",
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "reclaim-spark"),
    }


def java_options() -> str:
    """Return options for Java on this machine, without the class archive."""
    # Most of the work is Python's. Full compilation of Java code takes longer than a run.
    return os.environ.get(JAVA_VARIABLE, "-XX:TieredStopAtLevel=1")


def _java_options_with_archive() -> str:
    options = java_options()
    # A session starts without a bad archive.
    with suppress(Exception):
        if archive := ClassArchive.find():
            return archive.options_to_use(options)
    return options


@contextmanager
def _log_file() -> Iterator[int]:
    """Open the log file for Java's output, if set, otherwise the null device."""
    file = os.environ.get(LOG_VARIABLE, os.devnull)
    # Java writes settings to it, among them secrets.
    log = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, mode=0o600)
    try:
        yield log
    finally:
        os.close(log)


@contextmanager
def _redirected_output(log: int, *, silent: bool) -> Iterator[None]:
    """Redirect stderr of Spark's client to the log, and silence its stdout."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {number: os.dup(number) for number in ((1, 2) if silent else (2,))}
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in kept:
            os.dup2(log if number == 2 else nowhere, number)
        yield
    finally:
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
        os.close(nowhere)


@contextmanager
def _kept_interrupts() -> Iterator[None]:
    """Restore the previous handling of Ctrl-C.

    Spark would answer it by calling Java in the middle of another call, and both would complain.
    The engine cancels its jobs itself.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _driver_mark() -> Iterator[None]:
    """Give the identity of this process to Java, and to the workers it starts."""
    own = Process.current()
    if own is not None:
        os.environ[DRIVER_VARIABLE] = own.mark
    try:
        yield
    finally:
        os.environ.pop(DRIVER_VARIABLE, None)


@contextmanager
def _variable_unset(name: str) -> Iterator[None]:
    """Unset a variable in the block: Spark would prefer its Connect server to any given master."""
    value = os.environ.pop(name, None)
    try:
        yield
    finally:
        if value is not None:
            os.environ[name] = value


def tasks_in_environment() -> int | None:
    """Return the number of tasks of a large job, if the environment sets it."""
    text = os.environ.get(TASKS_VARIABLE)
    if text is None:
        return None
    if not text.isdecimal() or not int(text):
        raise InvalidInput(f"{TASKS_VARIABLE} is {text!r}", hint="give it a number, such as 200")
    return int(text)


def _check_remote(url: str) -> None:
    if not url.startswith(("sc://", "local")):
        raise InvalidInput(
            f"{redacted(url)!r} is not the URL of a Spark Connect server",
            hint=f"write --remote or {REMOTE_VARIABLE} as sc://HOST:PORT",
        )


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").exists():
        raise Unavailable(
            f"Spark needs Java, but there is none in JAVA_HOME={home}",
            hint="point JAVA_HOME to Java 17 or newer, or unset it; for a small store use "
            "--engine local",
        )
    if not home and shutil.which("java") is None:
        raise Unavailable(
            "Spark needs Java, which is not installed on this machine",
            hint="install Java 17 or newer, or name a Connect server in SPARK_REMOTE; for a small "
            "store use --engine local",
        )


def _check_reachable(url: str) -> None:
    """Check for a listening server: Spark itself would try for minutes with little explanation."""
    servers = _servers(url)
    if not servers or any(os.environ.get(name) for name in PROXY_VARIABLES):
        return
    for host, port in servers:
        with suppress(OSError), socket.create_connection((host, port), timeout=REACH_SECONDS):
            return
    raise Unavailable(
        f"no Spark session on {redacted(url)}: no server answers there",
        hint="check the address, and that the server runs",
    )


def _servers(url: str) -> Sequence[tuple[str, int]]:
    """Return the hosts and ports in the URL of a Connect server or standalone master."""
    scheme, separator, location = url.partition("://")
    if not separator or scheme not in ("sc", "spark"):
        return ()
    servers = []
    for server in location.split(";")[0].strip("/").split(","):
        host, _, port = server.rpartition(":") if ":" in server else (server, "", "")
        if port and not port.isdigit():
            return ()
        servers.append((host.strip("[]"), int(port or CONNECT_PORT)))
    return servers
