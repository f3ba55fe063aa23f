"""The Java process of a session of this machine.

Started here instead of by PySpark, so that it can be ended before it is up, and so that what it
writes goes elsewhere without turning away what this process writes. It ends by itself when this
process has ended, in whatever way: it reads from a pipe that is closed then.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import sleep

from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway

from reclaim.process import DRIVER_VARIABLE, Process

PORT_VARIABLE = "PYSPARK_GATEWAY_PORT"
SECRET_VARIABLE = "PYSPARK_GATEWAY_SECRET"
ARGUMENTS_VARIABLE = "PYSPARK_SUBMIT_ARGS"
FILE_VARIABLE = "_PYSPARK_DRIVER_CONN_INFO_PATH"
POLL_SECONDS = 0.02

_running: subprocess.Popen[bytes] | None = None
_starting: set[subprocess.Popen[bytes]] = set()
_guard = threading.Lock()


def start_java(settings: Mapping[str, str], *, output: int | None, errors: int) -> None:
    """Start Java for the sessions of this process, unless it runs already.

    What it says goes to ``output`` and ``errors``.
    """
    global _running
    if SparkContext._gateway is not None:
        return
    with tempfile.TemporaryDirectory(prefix="reclaim-java-") as folder:
        file = Path(folder) / "connection"
        process = subprocess.Popen(
            _command(settings),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=errors,
            env={**_environment(), FILE_VARIABLE: str(file)},
            # Ctrl-C is for this process, which ends its jobs in order.
            start_new_session=True,
        )
        with _guard:
            _starting.add(process)
        try:
            port, secret = _connection(process, file)
            _connect(port, secret)
        except BaseException:
            _kill(process)
            raise
        finally:
            with _guard:
                _starting.discard(process)
    _running = process


def _environment() -> dict[str, str]:
    """The environment of Java, and of the tasks that it starts: it says whom they work for."""
    own = Process.current()
    mark = {} if own is None else {DRIVER_VARIABLE: own.mark}
    return {**os.environ, "SPARK_CONNECT_MODE": "0", **mark}


def running_java() -> subprocess.Popen[bytes] | None:
    """The Java that was started here and is up."""
    return _running


def end_starting() -> None:
    """End Java where it is not up yet and nobody waits for it any more."""
    with _guard:
        processes = list(_starting)
    for process in processes:
        _kill(process)


def _command(settings: Mapping[str, str]) -> list[str]:
    command = [str(Path(_find_spark_home()) / "bin" / "spark-submit")]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    return [*command, *shlex.split(os.environ.get(ARGUMENTS_VARIABLE, "pyspark-shell"))]


def _connection(process: subprocess.Popen[bytes], file: Path) -> tuple[int, str]:
    """Where Java listens, as soon as it does."""
    while not file.is_file():
        if process.poll() is not None:
            raise OSError(f"Java ended with exit code {process.returncode} before it was up")
        sleep(POLL_SECONDS)
    # Two numbers of four bytes, the second of which is the length of what follows.
    told = file.read_bytes()
    return int.from_bytes(told[:4]), told[8 : 8 + int.from_bytes(told[4:8])].decode()


def _connect(port: int, secret: str) -> None:
    os.environ |= {PORT_VARIABLE: str(port), SECRET_VARIABLE: secret}
    try:
        SparkContext._gateway = launch_gateway()  # type: ignore[no-untyped-call]
        SparkContext._jvm = SparkContext._gateway.jvm
    finally:
        # Only a program that spark-submit started has them.
        for name in (PORT_VARIABLE, SECRET_VARIABLE):
            os.environ.pop(name, None)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        process.kill()
    if process.stdin is not None:
        process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=10)
