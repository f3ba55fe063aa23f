"""A lock whose holder was killed is released, and no other lock is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest

from reclaim import process as processes
from reclaim.catalog import Catalog
from reclaim.clock import SKEW, Clock, SystemClock
from reclaim.errors import Conflict, Refused
from reclaim.lock import REQUEST, LockState, TimedLock
from reclaim.process import DRIVER_VARIABLE, Process
from reclaim.storage import ObjectStorage
from reclaim.stores.registry import find
from reclaim.stores.sidecar.sidecar import Sidecar
from reclaim.testing import FakeClock

HOLD = """
import sys, time
from pathlib import Path
from tests.collect.locks.test_lock_released import OPENERS
with OPENERS[sys.argv[1]](Path(sys.argv[2])) as store, store.lock("run"):
    print("held", flush=True)
    time.sleep(600)
"""
ROOT = Path(__file__).parents[3]


class Lockable(Protocol):
    def lock(self, run_id: str) -> AbstractContextManager[Any]: ...

    def lock_state(self) -> LockState | None: ...

    def release_lock(self, seen: LockState) -> datetime: ...


@contextmanager
def open_catalog(folder: Path, clock: Clock | None = None) -> Iterator[Lockable]:
    with Catalog.open(folder, clock=clock or SystemClock()) as catalog:
        yield find(catalog, "sales")


@contextmanager
def open_sidecar(folder: Path, clock: Clock | None = None) -> Iterator[Lockable]:
    storage = ObjectStorage.open(folder.as_uri())
    yield Sidecar(storage, "store/", clock or SystemClock())


Open = Callable[..., AbstractContextManager[Lockable]]
OPENERS: dict[str, Open] = {"catalog": open_catalog, "sidecar": open_sidecar}


@dataclass
class Held:
    """A store whose lock another process holds."""

    open: Callable[..., AbstractContextManager[Lockable]]
    process: subprocess.Popen[str]
    slack: timedelta

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def seen(self) -> LockState:
        with self.open() as store:
            state = store.lock_state()
        assert state is not None
        assert state.process is not None
        return state


@pytest.fixture(params=OPENERS)
def held(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Held]:
    kind = request.param
    if kind == "catalog":
        with Catalog.init(tmp_path / "catalog") as catalog:
            catalog.create_repository("sales")
    folder = tmp_path / "catalog" if kind == "catalog" else tmp_path
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, kind, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"

    def open_again(clock: Clock | None = None) -> AbstractContextManager[Lockable]:
        return OPENERS[kind](folder, clock)

    yield Held(open_again, holder, SKEW if kind == "sidecar" else timedelta(0))
    holder.kill()
    holder.wait()
    holder.stdout.close()


def refusal(held: Held, seen: LockState) -> str:
    """The reason why a lock is not released; it says when it ends, and stays as it was."""
    with held.open() as store:
        with pytest.raises(Refused) as refused:
            store.release_lock(seen)
        assert store.lock_state() is not None
    assert f"it is free at {seen.free_at:%F %T} UTC" in str(refused.value.hint)
    return refused.value.message


def test_a_lock_of_a_killed_process_is_free_after_a_request(held: Held) -> None:
    before = SystemClock().now()
    held.kill()
    seen = held.seen()
    assert seen.process is not None
    assert seen.process.pid == held.process.pid
    with held.open() as store:
        with pytest.raises(Conflict, match="has died") as conflict, store.lock("next"):
            pass
        assert "reclaim lock release" in str(conflict.value.hint)
        free_at = store.release_lock(seen)
    margin = REQUEST + held.slack
    assert before + margin <= free_at <= SystemClock().now() + margin
    assert free_at < seen.free_at
    with held.open(FakeClock(free_at - timedelta(milliseconds=1))) as store:
        with pytest.raises(Conflict), store.lock("next"):
            pass
    with held.open(FakeClock(free_at)) as store, store.lock("next"):
        pass


def test_a_release_is_repeated_without_a_delay(held: Held) -> None:
    held.kill()
    with held.open() as store:
        free_at = store.release_lock(held.seen())
        assert store.release_lock(held.seen()) == free_at


def test_a_running_process_keeps_its_lock(held: Held) -> None:
    assert "is running" in refusal(held, held.seen())


def test_a_stopped_process_keeps_its_lock(held: Held) -> None:
    held.process.send_signal(signal.SIGSTOP)
    assert "is running" in refusal(held, held.seen())


def test_a_process_that_works_for_the_dead_one_keeps_its_lock(held: Held) -> None:
    seen = held.seen()
    assert seen.process is not None
    mark = {DRIVER_VARIABLE: seen.process.mark}
    worker = subprocess.Popen(["sleep", "600"], env={**os.environ, **mark})
    try:
        held.kill()
        assert f"process {worker.pid}, started by" in refusal(held, seen)
    finally:
        worker.kill()
        worker.wait()
    with held.open() as store:
        store.release_lock(seen)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"boot": "another"}, "another machine"),
        ({"namespace": "pid:[1]"}, "another machine, container"),
        ({"remote_work": True}, "executors on other machines"),
    ],
    ids=["boot", "namespace", "remote"],
)
def test_what_this_machine_cannot_know_keeps_its_lock(
    held: Held, change: dict[str, Any], why: str
) -> None:
    held.kill()
    seen = held.seen()
    assert seen.process is not None
    assert why in refusal(held, replace(seen, process=replace(seen.process, **change)))
    assert "does not name the process" in refusal(held, replace(seen, process=None))


def test_a_lock_that_changed_since_is_not_released(held: Held) -> None:
    seen = held.seen()
    held.kill()
    with held.open() as store:
        with pytest.raises(Conflict, match="nothing was released"):
            store.release_lock(replace(seen, version="another"))
        assert store.lock_state() == seen


def test_a_process_id_that_is_used_again_is_no_sign_of_life() -> None:
    own = Process.current()
    assert own is not None
    assert "is running" in own.why_not_ended()
    assert replace(own, started=own.started - 1).why_not_ended() == ""


def test_an_unreaped_process_has_ended() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    own, started = Process.current(), processes._start_of(child.pid)
    assert own is not None
    assert started is not None
    of_child = replace(own, pid=child.pid, started=started)
    assert "is running" in of_child.why_not_ended()
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert of_child.why_not_ended() == ""
    child.communicate()


def test_a_process_of_another_user_keeps_its_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Process.current()
    assert own is not None
    me = replace(own, user=own.user + 1)
    monkeypatch.setattr(processes, "_current", lambda *_: me)
    assert "another user" in replace(own, started=1).why_not_ended()


class Shown:
    """What a system shows of this process, in a folder that stands for ``/proc``."""

    def __init__(self, folder: Path) -> None:
        self._own = folder / str(os.getpid())
        self._self = folder / "self"
        boot = folder / "sys/kernel/random/boot_id"
        for parent in (boot.parent, self._own / "ns"):
            parent.mkdir(parents=True)
        boot.write_text("a boot\n")
        self._self.symlink_to(self._own)
        (self._own / "stat").write_text(f"{os.getpid()} (python) S {' '.join(['1'] * 30)}\n")
        self.user(os.geteuid())
        for namespace in ("pid", "user", "time"):
            self.namespace(namespace, 1)

    def user(self, effective: int) -> None:
        (self._own / "status").write_text(f"Name:\tpython\nUid:\t7\t{effective}\t7\t7\n")

    def namespace(self, name: str, number: int) -> None:
        link = self._own / "ns" / name
        link.unlink(missing_ok=True)
        link.symlink_to(f"{name}:[{number}]")

    def as_process(self, pid: int) -> None:
        self._self.unlink()
        self._self.symlink_to(str(pid))

    def current(self) -> Process | None:
        processes._current.cache_clear()
        return Process.current()


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shown]:
    with monkeypatch.context() as patch:
        patch.setattr(processes, "_PROC", tmp_path)
        yield Shown(tmp_path)
    processes._current.cache_clear()


@pytest.mark.parametrize("namespace", ["pid", "user", "time"])
def test_ids_times_and_users_of_other_namespaces_tell_nothing(shown: Shown, namespace: str) -> None:
    """A process that runs may have another user there, or have started at another time."""
    before = shown.current()
    assert before is not None
    assert "is running" in before.why_not_ended()
    assert replace(before, started=0).why_not_ended() == ""
    shown.namespace(namespace, 2)
    after = shown.current()
    assert after is not None
    assert "another machine, container" in replace(before, started=0).why_not_ended()


def test_processes_that_are_shown_by_other_ids_tell_nothing(shown: Shown) -> None:
    shown.as_process(os.getpid() + 1)
    assert shown.current() is None


def test_a_user_that_is_made_up_tells_nothing(shown: Shown) -> None:
    """As by fakeroot, where processes of the user seem to be of another one."""
    shown.user(os.geteuid() + 1)
    assert shown.current() is None


def test_a_process_that_cannot_be_looked_at_keeps_its_lock(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = shown.current()
    assert own is not None

    def denied(_pid: int) -> int | None:
        raise PermissionError

    monkeypatch.setattr(processes, "_start_of", denied)
    assert "cannot be inspected" in own.why_not_ended()


@pytest.mark.parametrize("text", [None, "", "[]", "{}", "7", '{"pid": 1}', "x"])
def test_a_damaged_process_is_none(text: str | None) -> None:
    assert Process.decode(text) is None


def test_a_process_is_read_as_it_was_written() -> None:
    own = Process.current()
    assert own is not None
    assert Process.decode(own.encode()) == own


def test_remote_work_is_recorded_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine may connect to a cluster after the lock was taken."""
    monkeypatch.setattr(processes, "_remote_work", False)
    with Sidecar(ObjectStorage.open(tmp_path.as_uri()), "", SystemClock()).lock("run") as lock:
        assert isinstance(lock, TimedLock)
        processes.note_remote_work()
        with lock.lend(timedelta(minutes=1), lambda: True):
            state = Sidecar(ObjectStorage.open(tmp_path.as_uri()), "", SystemClock()).lock_state()
    assert state is not None
    assert state.process is not None
    assert state.process.remote_work
