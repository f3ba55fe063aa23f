"""A process that has loaded what tests need of other libraries, and nothing of ours.

Each planted bug is tested in a fork of it, which then loads our modules with the bug in them. To
load the libraries anew for each would take longer than most of the tests.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIBRARIES = (
    "boto3",
    "hypothesis.stateful",
    "numpy",
    "obstore",
    # The first array that pyarrow makes of Python's objects asks for it.
    "pandas",
    "psycopg",
    "pyarrow.compute",
    "pyarrow.parquet",
    "pydantic.dataclasses",
    "pydantic.json_schema",
    "pydantic.main",
    "pydantic.plugin._loader",
    "pytest",
    "rich.console",
    "rich.table",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "sqlite3",
    "typer.testing",
    "yaml",
)
# One thread: a fork has only the thread that made it.
SINGLE_THREADED = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
SECONDS = 300


@dataclass(frozen=True)
class Ended:
    """How a fork ended, and what it printed."""

    code: int
    output: str


class Nursery:
    """Starts the process when it is first needed, and ends it with this one."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, arguments: Sequence[str], variables: Mapping[str, str]) -> Ended:
        """Run pytest in a fork."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        with tempfile.NamedTemporaryFile("r", prefix="reclaim-planted-") as output:
            request = {"arguments": [*arguments], "variables": {**variables}, "file": output.name}
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            return Ended(int(answer), output.read())

    def _start(self) -> subprocess.Popen[str]:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=ROOT,
            env=os.environ | SINGLE_THREADED,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self._process.terminate)
        return self._process


def _serve() -> None:
    for library in LIBRARIES:
        import_module(library)
    with tempfile.TemporaryDirectory(prefix="reclaim-planted-") as folder:
        _share_compiled_code(folder)
        _serve_from_here()


def _share_compiled_code(folder: str) -> None:
    """Let the forks share what they compile of our modules, if they may not write it beside them.

    A module with a bug in it is compiled past every cache.
    """
    if sys.dont_write_bytecode and sys.pycache_prefix is None:
        sys.dont_write_bytecode = False
        sys.pycache_prefix = folder


def _serve_from_here() -> None:
    ours = [name for name in sys.modules if name.partition(".")[0] == "reclaim"]
    assert not ours, ours
    # What there is stays: a fork need not look for garbage in it, nor copy it for that.
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _test(request["arguments"], request["variables"], request["file"])
        print(_wait(child), flush=True)


def _test(arguments: list[str], variables: dict[str, str], file: str) -> None:
    """In the fork: everything that is printed goes to the file."""
    import pytest

    output = os.open(file, os.O_WRONLY)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update(variables)
    code = 99
    try:
        code = int(pytest.main(arguments))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(child: int) -> int:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -signal.SIGKILL


if __name__ == "__main__":
    _serve()
