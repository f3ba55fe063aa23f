"""Work on a repository that is killed: each time in a process of its own, which a small one forks.

A *step* is a single change, as the disk or the bucket sees it: an object that is written, a file
that is opened to be written, dated, renamed or removed, a folder that is made or removed, and the
call of the library that edits a history. A process dies right before a step, with all its threads.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import obstore

from reclaim.engine.local.engine import LocalEngine
from reclaim.engine.tasks import deleting
from reclaim.engine.tasks.parts import Place
from reclaim.policy import parse_policy
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.purge.purge import purge
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine
from reclaim.run.undo.undo_run import undo_run
from reclaim.stores.icechunk import held
from reclaim.stores.icechunk.store import IcechunkStore
from tests.support.expiring import apply_expire, plan_expire

SERVE = "import tests.planted.plant; from tests.icechunk.killed import serve; serve()"
"""The program of the process that forks. A bug that is planted here is planted there too."""
ROOT = Path(__file__).resolve().parent.parent.parent
MOVE = MoveToQuarantine(timedelta(days=7))
BY_LIBRARY = "expire_snapshots"
CHANGES: Mapping[Any, tuple[str, ...]] = {
    obstore: ("put", "copy", "delete", "open_writer"),
    os: ("rename", "unlink", "utime", "mkdir", "rmdir"),
    held: (BY_LIBRARY,),
}
"""What changes something, by module."""
LATE_LIBRARIES = ("pandas", "pyarrow.dataset", "pyarrow.pandas_compat", "pyarrow.parquet", "zarr")
"""Loaded before a fork, which would otherwise load them each time. Icechunk's own, which needs the
last of them, starts threads and is left to the forks."""
REPO = "repo"
"""The file of spec 2 that every reader needs."""
SINGLE_THREADED = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""A process with threads is not to be forked."""
KILLED, LIVED = -signal.SIGKILL, 0


@dataclass(frozen=True)
class Work:
    """Something that is done to the repository at a location, by whichever process."""

    name: str
    location: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def do(self) -> None:
        WORKS[self.name](IcechunkStore(self.location), **self.options)


def _apply(store: IcechunkStore, *, url: str, prefix: str, moves: bool) -> None:
    removal = MOVE if moves else DELETE
    apply_plan(store, LocalEngine(), Place(url, prefix), removal=removal)


def _undo(store: IcechunkStore, *, run: str) -> None:
    undo_run(store, LocalEngine(), run)


def _purge(store: IcechunkStore, *, run: str) -> None:
    purge(store, LocalEngine(), run_id=run)


def _expire(store: IcechunkStore, *, policy: Mapping[str, Any]) -> None:
    store.clean()
    plan = plan_expire(store, parse_policy(policy))
    if plan.document.edits_history:
        # As the command does it: an empty plan is not applied.
        apply_expire(store, plan)


WORKS: Mapping[str, Callable[..., None]] = {
    "apply": _apply,
    "undo": _undo,
    "purge": _purge,
    "expire": _expire,
}


@dataclass(frozen=True)
class Death:
    """The step before which a process dies: the one with this number among those that are chosen.

    That is every so many of them from the first one on, and those right before and after a change
    of ``repo``, or of the history by the library.
    """

    number: int
    first: int = 1
    stride: int = 1


class Nursery:
    """The process that forks."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def kill(self, work: Work, death: Death, variables: Mapping[str, str] | None = None) -> bool:
        """Begin some work and be killed; False if it has no such step."""
        self.begin(work, death, variables)
        return self.was_killed()

    def begin(
        self, work: Work, death: Death | None, variables: Mapping[str, str] | None = None
    ) -> int:
        """Begin some work, in a process with this id."""
        assert self._process.stdin is not None
        request = {
            "work": asdict(work),
            "death": death and asdict(death),
            "variables": dict(variables or {}),
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def was_killed(self) -> bool:
        """Wait for the end of what was begun."""
        code = self._answer()
        assert code in (KILLED, LIVED)
        return code == KILLED

    def _answer(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


@contextmanager
def nursery() -> Iterator[Nursery]:
    with subprocess.Popen(
        [sys.executable, "-c", SERVE],
        cwd=ROOT,
        env=os.environ | SINGLE_THREADED,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Nursery(process)
        finally:
            process.terminate()


class Steps:
    """Counts the steps of all threads, and ends the process before one of them."""

    def __init__(self, death: Death) -> None:
        self._death = death
        self._number = 0
        self._chosen = 0
        self._was_at_history = False
        self._lock = threading.Lock()

    def watch(self) -> None:
        for module, names in CHANGES.items():
            for name in names:
                setattr(module, name, self._before(getattr(module, name)))
        os.open = self._before(os.open, lambda _path, flags, *_: flags & os.O_CREAT)

    def _before(
        self, change: Callable[..., Any], is_step: Callable[..., object] = lambda *_: True
    ) -> Callable[..., Any]:
        by_library = change.__name__ == BY_LIBRARY

        def stepped(*args: Any, **options: Any) -> Any:
            if is_step(*args):
                self._count(at_history=by_library or any(_name(one) == REPO for one in args))
            return change(*args, **options)

        return stepped

    def _count(self, *, at_history: bool) -> None:
        with self._lock:
            self._number += 1
            is_chosen = at_history or self._was_at_history
            self._was_at_history = at_history
            if not is_chosen and (self._number - self._death.first) % self._death.stride:
                return
            self._chosen += 1
            if self._chosen == self._death.number:
                os.kill(os.getpid(), signal.SIGKILL)


def _name(address: object) -> str:
    return address.rpartition("/")[2] if isinstance(address, str) else ""


def _work(request: Mapping[str, Any]) -> None:
    """In the fork."""
    deleting.PAGE = 3
    # A process dies here, and not the machine.
    os.fsync = lambda fd: None  # noqa: ARG005
    os.environ.update(request["variables"])
    if request["death"]:
        Steps(Death(**request["death"])).watch()
    Work(**request["work"]).do()


def serve() -> None:
    for library in LATE_LIBRARIES:
        importlib.import_module(library)
    # A fork need not look for garbage in what is here, nor copy it for that.
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 99
            try:
                _work(json.loads(line))
                code = LIVED
            finally:
                os._exit(code)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
