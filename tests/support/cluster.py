"""A real Spark cluster for tests: a standalone master with workers, from the pip package."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.servers import free_ports

START_SECONDS = 120
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for Java that ends soon: compile as little as can be, collect garbage in one thread."""


@contextmanager
def standalone(folder: Path, *, workers: int = 2) -> Iterator[str]:
    """A master and workers with one core each, on 127.0.0.1; gives the master's URL."""
    port, page = free_ports(2)
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as running:
        log = running.enter_context(
            _started(folder, "master", ["--host", "127.0.0.1", "--port", str(port)], page)
        )
        _wait_for(log, "I have been elected leader", "Registered app", "Starting Spark master")
        for number in range(workers):
            size = ["-c", "1", "-m", "768m", "-d", str(folder / f"worker-{number}")]
            log = running.enter_context(
                _started(folder, f"worker-{number}", ["--host", "127.0.0.1", *size, master], 0)
            )
            _wait_for(log, "Successfully registered with master")
        yield master


@contextmanager
def _started(folder: Path, name: str, arguments: list[str], page: int) -> Iterator[Path]:
    import pyspark

    home = Path(pyspark.__file__).parent
    kind = "master.Master" if name == "master" else "worker.Worker"
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{name}.log"
    command = [
        str(home / "bin" / "spark-class"),
        f"org.apache.spark.deploy.{kind}",
        "--webui-port",
        str(page),
        *arguments,
    ]
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        # For the executors too, which a worker starts: most of what they would do is compile.
        "JAVA_TOOL_OPTIONS": QUICK_JAVA,
    }
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
    try:
        yield log
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(log: Path, *signs: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        text = log.read_text(errors="replace")
        if any(sign in text for sign in signs):
            return
        time.sleep(0.1)
    raise RuntimeError(f"Spark did not start: {log.read_text(errors='replace')[-2000:]}")
