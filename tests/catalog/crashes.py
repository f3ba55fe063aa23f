"""A process that kills itself: what the crash tests run.

It is started by a server that forks, so that each of hundreds of crashes costs milliseconds. A
step is anything after which something else is left behind: every commit of a transaction, every
call that changes the storage. Who dies just before a commit has made all its statements, none of
which may count; in a soak each statement that writes is a step as well.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import event

from reclaim.catalog import Catalog, Repository
from reclaim.storage import Payload, Storage
from reclaim.testing import FakeClock, StorageWrapper
from tests.support.soak import SOAK

NOW = datetime(2026, 3, 1, tzinfo=UTC)


class Countdown:
    """Kills the process at the nth step."""

    def __init__(self, fatal: int) -> None:
        self._left = fatal

    def step(self, *_: Any, **__: Any) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class FatalStorage(StorageWrapper):
    """Steps before every change; who dies after one has left what the next step finds."""

    def __init__(self, inner: Storage, countdown: Countdown) -> None:
        super().__init__(inner)
        self._step = countdown.step

    def put(self, address: str, data: Payload, *, create: bool = False) -> None:
        self._step()
        super().put(address, data, create=create)

    def copy(self, source: str, target: str) -> None:
        self._step()
        super().copy(source, target)

    def delete(self, address: str) -> None:
        self._step()
        super().delete(address)


def build(repo: Repository) -> None:
    """The state before the crash: history, branches, staged changes, an upload to link."""
    main = repo.branch("main")
    for path in ("a", "b", "dir/c"):
        main.put(path, f"old {path}".encode())
    main.commit("base")
    other = repo.create_branch("other")
    other.put("from-other", b"merged")
    other.delete("b")
    other.commit("other side")
    main.put("dir/d", b"second")
    main.commit("second")
    staged = repo.create_branch("staged")
    staged.put("a", b"staged over a")
    staged.put("new", b"staged new")
    staged.delete("dir/c")


def put(repo: Repository) -> None:
    repo.branch("staged").put("new", b"put again")


def commit(repo: Repository) -> None:
    repo.branch("staged").commit("committed")


def merge(repo: Repository) -> None:
    repo.branch("main").merge("other", message="merged")


def revert(repo: Repository) -> None:
    repo.branch("main").revert("main", message="reverted")


def reset(repo: Repository) -> None:
    repo.branch("staged").reset()


def reset_prefix(repo: Repository) -> None:
    repo.branch("staged").reset_prefix("dir/")


def move(repo: Repository) -> None:
    repo.branch("staged").move("new", "moved")


def copy_bytes(repo: Repository) -> None:
    repo.branch("staged").copy("from-other", "copied", source_ref="other")


def link(repo: Repository) -> None:
    branch = repo.branch("staged")
    physical = branch.get_physical_address("linked")
    repo._workspace.storage.put(physical.address, b"uploaded")
    branch.link_physical_address("linked", physical)


def delete_branch(repo: Repository) -> None:
    repo.delete_branch("staged")
    repo.clean()


OPERATIONS: dict[str, Callable[[Repository], None]] = {
    work.__name__: work
    for work in (
        put,
        commit,
        merge,
        revert,
        reset,
        reset_prefix,
        move,
        copy_bytes,
        link,
        delete_branch,
    )
}


def run(location: str, operation: str, fatal: int, environment: dict[str, str]) -> None:
    """Run an operation and die at a step; ends normally when there are fewer steps."""
    os.environ.update(environment)
    countdown = Countdown(fatal)
    # The storage is not clocked: on S3 another process would not see it.
    clock = FakeClock(datetime.now(UTC))
    catalog = Catalog.open(
        location, clock=clock, wrap_storage=lambda storage: FatalStorage(storage, countdown)
    )
    repo = catalog.repository("sales")

    def before_statement(_: Any, __: Any, statement: str, *___: Any) -> None:
        if not statement.startswith(("SELECT", "PRAGMA")):
            countdown.step()

    engine = repo._workspace.database._engine
    if SOAK:
        event.listen(engine, "before_cursor_execute", before_statement)
    event.listen(engine, "commit", countdown.step)
    OPERATIONS[operation](repo)
    os._exit(0)
