"""Processes that have loaded what tests need, of which each planted bug is tested in a fork.

To load everything anew for each would take longer than most of the tests. A *warm* one has loaded
our modules and tests as well, and a fork exchanges the functions that a bug changes. Where that
cannot be, or was not noticed, a *cold* one is asked, which has loaded nothing of ours: a fork of it
loads our modules with the bug in them.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from io import StringIO
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

from tests.support.soak import FIRST_FAILURE

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
OPTIONS = (
    *("-q", "--tb=line", "-p", "no:cacheprovider", "-p", "no:xdist"),
    # A test that fails may leave a connection open; that is not what is looked for.
    *("-p", "no:unraisableexception"),
)
# One thread: a fork has only the thread that made it.
SINGLE_THREADED = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
# Any example that fails will do.
BRIEF = {FIRST_FAILURE: "1"}
STARTS_THREADS = re.compile(
    r"^(?:import|from) (?:(?:tests\.)?icechunk|polars|duckdb)\b", re.MULTILINE
)
ALLOCATOR = "jemalloc_bg_thd"
"""The thread that pyarrow's allocator has. It looks after itself when there is a fork."""
SECONDS = 300
NOT_TESTED = 99
"""The exit code of a fork in which the bug cannot be planted."""


@dataclass(frozen=True)
class Ended:
    """How a fork ended, and what it printed."""

    code: int
    output: str


class Nursery:
    """Starts the process when it is first needed, and ends it with this one."""

    def __init__(self, *, warm: bool) -> None:
        self._warm = warm
        self._process: subprocess.Popen[str] | None = None

    def run(self, arguments: Sequence[str], variables: Mapping[str, str], bug: str = "") -> Ended:
        """Run pytest in a fork; a warm one plants the bug before."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        with tempfile.NamedTemporaryFile("r", prefix="reclaim-planted-") as output:
            request = {
                "arguments": [*arguments],
                "variables": {**variables},
                "file": output.name,
                "bug": bug,
            }
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            return Ended(int(answer), output.read())

    def _start(self) -> subprocess.Popen[str]:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, *(["warm"] if self._warm else [])],
            cwd=ROOT,
            env=os.environ | SINGLE_THREADED | BRIEF | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self._end)
        return self._process

    def _end(self) -> None:
        """Let it end: it does when it is asked for nothing more."""
        assert self._process is not None
        self._process.communicate()


def _serve(*, warm: bool) -> None:
    for library in LIBRARIES:
        import_module(library)
    with tempfile.TemporaryDirectory(prefix="reclaim-planted-") as folder:
        _share_compiled_code(folder)
        _serve_from_here(_load_ours() if warm else _load_nothing())


def _load_nothing() -> Callable[[str], None]:
    """See that nothing of ours is loaded: then a fork plants a bug as it loads."""
    ours = [name for name in sys.modules if name.partition(".")[0] == "reclaim"]
    assert not ours, ours
    return lambda _bug: None


def _load_ours() -> Callable[[str], None]:
    """Load our modules and the tests that find bugs; returns what plants a bug."""
    import pytest

    import reclaim
    from tests.planted.plant import BUGS
    from tests.planted.swapping import Functions

    for module in walk_packages(reclaim.__path__, f"{reclaim.__name__}."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    files = {test.partition("::")[0] for bug in BUGS.values() for test in bug.tests}
    loadable = sorted(file for file in files if not _starts_threads(ROOT / file))
    with redirect_stdout(StringIO()):
        code = pytest.main([*loadable, *OPTIONS, "--collect-only", "-qq"])
    assert code == 0, code
    _check_threads()
    functions = Functions(ROOT / "src")
    return lambda bug: functions.plant(BUGS[bug])


def _starts_threads(file: Path) -> bool:
    """Whether a test uses a library that starts threads as it is loaded: a fork loads it then."""
    return file.parent.name == "icechunk" or bool(STARTS_THREADS.search(file.read_text()))


def _check_threads() -> None:
    """A fork of a process with threads waits for ever for what they should do."""
    names = {(task / "comm").read_text().strip() for task in Path("/proc/self/task").glob("*")}
    mine = Path("/proc/self/comm")
    allowed = {ALLOCATOR, mine.read_text().strip() if mine.exists() else ""}
    assert names <= allowed, names


def _share_compiled_code(folder: str) -> None:
    """Let the forks share what they compile of our modules, if they may not write it beside them.

    A module with a bug in it is compiled past every cache.
    """
    if sys.dont_write_bytecode and sys.pycache_prefix is None:
        sys.dont_write_bytecode = False
        sys.pycache_prefix = folder


def _serve_from_here(plant: Callable[[str], None]) -> None:
    # What there is stays: a fork need not look for garbage in it, nor copy it for that.
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _test(plant, request)
        print(_wait(child), flush=True)


def _test(plant: Callable[[str], None], request: dict[str, Any]) -> None:
    """In the fork: everything that is printed goes to the file."""
    import pytest

    output = os.open(request["file"], os.O_WRONLY)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update(request["variables"])
    code = NOT_TESTED
    try:
        if request["bug"]:
            plant(request["bug"])
        code = int(pytest.main(request["arguments"]))
    except Exception:
        traceback.print_exc()
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
    _serve(warm="warm" in sys.argv[1:])
