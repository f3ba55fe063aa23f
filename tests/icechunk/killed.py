"""Applies that are killed: each in a process of its own, which a small one forks.

A process dies right before a write to the storage that begins something else than the write before
it: another kind of write, or one in another folder.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from reclaim.engine.tasks import deleting
from reclaim.engine.tasks.parts import Place
from reclaim.run.apply import apply_plan
from reclaim.run.plan import Plan
from reclaim.run.removal import MoveToQuarantine
from reclaim.storage import ObjectStorage
from reclaim.stores.icechunk.store import IcechunkStore
from reclaim.testing.engine import OracleEngine

ROOT = Path(__file__).resolve().parent.parent.parent
WRITES = ("put", "swap", "copy", "move", "delete", "delete_page")
NAMES = re.compile("[0-9a-f]{32}|[0-9A-Z]{20}|[0-9]{5,}")
MOVE = MoveToQuarantine(timedelta(days=7))
SINGLE_THREADED = {"OPENBLAS_NUM_THREADS": "1"}
"""A process with threads is not to be forked."""
KILLED, LIVED = -signal.SIGKILL, 0


class Nursery:
    """The process that forks."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def apply(self, location: str, plan: Plan, fatal: int) -> bool:
        """Apply a plan and be killed at a boundary; False if there are fewer of them."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        place = plan.place
        request = {"location": location, "url": place.url, "prefix": place.prefix, "fatal": fatal}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        assert code in (KILLED, LIVED)
        return code == KILLED


@contextmanager
def nursery(variables: Mapping[str, str]) -> Iterator[Nursery]:
    with subprocess.Popen(
        [sys.executable, "-m", __name__],
        cwd=ROOT,
        env=os.environ | SINGLE_THREADED | dict(variables),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Nursery(process)
        finally:
            process.terminate()


class Boundaries:
    """Counts the writes that begin something else, and ends the process at one of them."""

    def __init__(self, fatal: int) -> None:
        self._left = fatal
        self._before: tuple[str, str] = ("", "")
        self._lock = threading.Lock()

    def __call__(self, call: str, address: object) -> None:
        first = address[0] if isinstance(address, list) else address
        what = call, NAMES.sub("*", str(first))
        with self._lock:
            if what == self._before:
                return
            self._before = what
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def _before(step: Boundaries, call: str, inner: Callable[..., Any]) -> Callable[..., Any]:
    def stepped(self: ObjectStorage, address: object, *args: Any, **options: Any) -> Any:
        step(call, address)
        return inner(self, address, *args, **options)

    return stepped


def _apply(request: Mapping[str, Any]) -> None:
    """In the fork."""
    step = Boundaries(request["fatal"])
    for call in WRITES:
        setattr(ObjectStorage, call, _before(step, call, getattr(ObjectStorage, call)))
    deleting.PAGE = 3
    # A process dies here, and not the machine.
    os.fsync = lambda fd: None  # noqa: ARG005
    place = Place(request["url"], request["prefix"])
    apply_plan(IcechunkStore(request["location"]), OracleEngine(), place, removal=MOVE)


def _serve() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 99
            try:
                _apply(json.loads(line))
                code = LIVED
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    _serve()
