"""The identity of a process, by which another process of the same machine knows that it has ended.

A process id alone is not enough: ids are used again, and containers share host names. So a process
is known by its id together with the time of its start, the boot of its machine and its namespaces,
without which ids, times and users mean something else. What cannot be read is never taken for the
end of a process.
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
"""In the environment of every process that works for another one here: the ``mark`` of that."""
_PROC = Path("/proc")
_ZOMBIE = ("Z", "X")
_NAMESPACES = ("pid", "user", "time")

_remote_work = False


@dataclass(frozen=True, slots=True)
class Process:
    """A process, and whether work that it has ordered may be done on other machines."""

    host: str
    pid: int
    started: int
    """When the process started, in clock ticks since the boot."""
    boot: str
    namespace: str
    """The namespaces in which ids of processes, users and times are told."""
    user: int
    remote_work: bool = False

    @classmethod
    def current(cls) -> Process | None:
        """This process; None on a system that does not tell enough of it."""
        return _current(os.getpid(), os.geteuid(), _remote_work)

    @classmethod
    def decode(cls, text: object) -> Process | None:
        """The process that ``encode`` wrote; None for anything else."""
        try:
            told = json.loads(text) if isinstance(text, str) else None
            values = [told[field.name] for field in fields(cls)]  # type: ignore[index]
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        if list(map(type, values)) != [str, int, int, str, str, int, bool]:
            return None
        return cls(*values)

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @property
    def mark(self) -> str:
        """The same for this process only."""
        return f"{self.boot} {self.namespace} {self.pid} {self.started}"

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    def why_not_ended(self) -> str:
        """Why this process, or work that it has ordered, may still go on; empty if none of it does.

        Empty only if this machine shows that the process and all that it started here have ended.
        """
        here = Process.current()
        if here is None:
            return "this system does not tell which processes have ended"
        if self.boot != here.boot or self.namespace != here.namespace:
            return f"{self} is of another machine, container or boot than this process"
        if self.remote_work:
            return f"executors on other machines may still work for {self}"
        if here.user not in (0, self.user):
            return f"{self} is of another user"
        try:
            running = _start_of(self.pid) == self.started
        except OSError:
            return f"{self} cannot be looked at"
        if running:
            return f"{self} is running"
        # Twice: a process may end right after it has started another one.
        for _ in range(2):
            for pid in _of_user(self.user):
                if _works_for(pid, self):
                    return f"process {pid}, which {self} has started, is running"
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
        # They differ where processes are shown by the ids of another namespace, or where a library
        # makes users up.
        shown = (_PROC / "self").readlink().name, _user_shown()
    except OSError:
        return None
    if not boot or started is None or shown != (str(pid), user):
        return None
    return Process(socket.gethostname(), pid, started, boot, namespace, user, remote_work)


def _namespaces() -> Iterator[str]:
    """The namespaces of this process. Of what a system has only one, it tells none."""
    for name in _NAMESPACES:
        with suppress(FileNotFoundError):
            yield str((_PROC / "self/ns" / name).readlink())


def _user_shown() -> int | None:
    """The effective user of this process by the system's own word."""
    for line in (_PROC / "self/status").read_text(errors="replace").splitlines():
        name, _, users = line.partition(":")
        if name == "Uid":
            return int(users.split()[1])
    return None


def _start_of(pid: int) -> int | None:
    """When a process started; None if none of that id runs."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name of the program comes before, in parentheses, and may hold anything.
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
    """Whether a process was started for a driver, or is younger and does not show for whom."""
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
