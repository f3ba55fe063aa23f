"""The identity of a process, used by other processes of the same machine to verify that it has
ended.

A process id alone is not enough: ids are reused, and containers share host names. So a process is
identified by its id, its start time, the boot of its machine and its namespaces, which give ids,
times and users their meaning. Unreadable facts never count as the end of a process.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path

DRIVER_VARIABLE = "RECLAIM_DRIVER"
"""Environment variable of every process working for another on this machine: the ``mark`` of the
latter."""
_PROC = Path("/proc")
_ZOMBIE = ("Z", "X")
_NAMESPACES = ("pid", "user", "time")

_remote_work = False


@dataclass(frozen=True, slots=True)
class Process:
    """A process, and whether it has ordered work on other machines."""

    host: str
    pid: int
    started: int
    """Start time in clock ticks since the boot."""
    boot: str
    namespace: str
    """The namespaces of process ids, users and times."""
    user: int
    remote_work: bool = False

    @classmethod
    def current(cls) -> Process | None:
        """Return this process; None on a system without the necessary facts."""
        return _current(os.getpid(), os.geteuid(), _remote_work)

    @classmethod
    def decode(cls, text: object) -> Process | None:
        """Parse the text written by ``encode``; None for any other text."""
        try:
            decoded = json.loads(text) if isinstance(text, str) else None
            values = [decoded[field.name] for field in fields(cls)]  # type: ignore[index]
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        if list(map(type, values)) != [str, int, int, str, str, int, bool]:
            return None
        return cls(*values)

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @property
    def mark(self) -> str:
        """The identity of the process as text, for the environment."""
        return f"{self.boot} {self.namespace} {self.pid} {self.started}"

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    def why_not_ended(self) -> str:
        """Return the reason why this process, or work it has ordered, may still be running; empty
        if all have ended.

        Empty only if this machine shows the end of the process and of all it started here.
        """
        current = Process.current()
        if current is None:
            return "this system cannot show which processes have ended"
        if self.boot != current.boot or self.namespace != current.namespace:
            return f"{self} belongs to another machine, container or boot than this process"
        if self.remote_work:
            return f"executors on other machines may still work for {self}"
        if current.user not in (0, self.user):
            return f"{self} belongs to another user"
        try:
            running = _start_of(self.pid) == self.started
        except OSError:
            return f"{self} cannot be inspected"
        if running:
            return f"{self} is running"
        # Twice: a process may end right after starting another.
        for _ in range(2):
            for pid in _of_user(self.user):
                if _works_for(pid, self):
                    return f"process {pid}, started by {self}, is running"
        return ""


def note_remote_work() -> None:
    """Note that other machines may work for this process from now on."""
    global _remote_work
    _remote_work = True


@lru_cache(maxsize=8)
def _current(pid: int, user: int, remote_work: bool) -> Process | None:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        namespace = " ".join(_namespaces())
        started = _start_of(pid)
        # They differ if processes are shown with ids of another namespace, or if a library fakes
        # users.
        shown = (_PROC / "self").readlink().name, _user_shown()
    except OSError:
        return None
    if not boot or started is None or shown != (str(pid), user):
        return None
    return Process(socket.gethostname(), pid, started, boot, namespace, user, remote_work)


def _namespaces() -> Iterator[str]:
    """Yield the namespaces of this process, except those a system has only once."""
    for name in _NAMESPACES:
        with suppress(FileNotFoundError):
            yield str((_PROC / "self/ns" / name).readlink())


def _user_shown() -> int | None:
    """Return the effective user of this process according to the system."""
    for line in (_PROC / "self/status").read_text(errors="replace").splitlines():
        name, _, users = line.partition(":")
        if name == "Uid":
            return int(users.split()[1])
    return None


def _start_of(pid: int) -> int | None:
    """Return the start time of a process; None if no process has this id."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name of the program comes before, in parentheses, and may contain anything.
    values = text.rpartition(")")[2].split()
    alone = values[17] == "1"
    return None if values[0] in _ZOMBIE and alone else int(values[19])


def _of_user(user: int) -> Iterator[int]:
    for folder in _PROC.iterdir():
        if folder.name.isdecimal():
            with suppress(FileNotFoundError, ProcessLookupError):
                if folder.stat().st_uid == user:
                    yield int(folder.name)


def _works_for(pid: int, driver: Process) -> bool:
    """Return whether a process was started for a driver, or is younger without a readable mark."""
    started = _start_of(pid)
    if started is None or started < driver.started:
        return False
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:
        return True
    return f"{DRIVER_VARIABLE}={driver.mark}".encode() in environment.split(b"\0")
