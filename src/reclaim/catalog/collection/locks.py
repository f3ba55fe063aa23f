"""The lock of a repository: one apply, undo or purge at a time.

A lock is a row: its owner, the process of that, and its expiry by the database's clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from reclaim.catalog.database.schema import locks
from reclaim.catalog.workspace import Workspace
from reclaim.clock import MICROSECOND, from_micros, to_micros
from reclaim.errors import LockLost
from reclaim.ids import new_uid
from reclaim.lock import LENGTH, REQUEST, TASKS, LockState, TimedLock, lock_changed, lock_taken
from reclaim.process import Process


class RepositoryLock(TimedLock):
    """The lock of a repository, in the hands of one run."""

    def __init__(self, workspace: Workspace, run_id: str, owner: str, sure_until: datetime) -> None:
        super().__init__(workspace.clock, run_id, sure_until)
        self._workspace = workspace
        self.owner = owner

    def renew(self) -> None:
        before = self._clock.now()

        def work(connection: Connection) -> int:
            now = to_micros(self._workspace.database.now(connection, self._clock))
            mine = update(locks).where(
                locks.c.repo_uid == self._workspace.repo_uid,
                locks.c.owner == self.owner,
                locks.c.expires_at > now,
            )
            expires_at = now + LENGTH // MICROSECOND
            values = mine.values(expires_at=expires_at, process=self._process_text)
            return connection.execute(values).rowcount

        if not self._workspace.database.transact(work):
            self._sure_until = before
            self.check()
        self._sure_until = before + LENGTH

    def give_back(self) -> None:
        _give_back(self._workspace, self.owner)

    def leave(self, time: timedelta) -> None:
        def work(connection: Connection) -> None:
            now = to_micros(self._workspace.database.now(connection, self._clock))
            mine = update(locks).where(
                locks.c.repo_uid == self._workspace.repo_uid, locks.c.owner == self.owner
            )
            connection.execute(mine.values(owner=TASKS, expires_at=now + time // MICROSECOND))

        self._workspace.database.transact(work)

    def assure(self, connection: Connection) -> None:
        """Fail in a transaction of the run unless it holds the lock as the transaction commits.

        A slow run must not go on from marks that another has taken off meanwhile.
        """
        query = select(locks.c.expires_at).where(
            locks.c.repo_uid == self._workspace.repo_uid, locks.c.owner == self.owner
        )
        expires_at = connection.execute(query.with_for_update(read=True)).scalar()
        now = to_micros(self._workspace.database.now(connection, self._clock))
        if expires_at is None or now >= expires_at:
            raise LockLost(
                f"run {self.run_id} lost its lock and stopped",
                hint="apply it again; it finishes the rest",
            )


@contextmanager
def hold(workspace: Workspace, run_id: str) -> Iterator[RepositoryLock]:
    """Hold the lock of a repository while the block runs; a ``Conflict`` if another run has it."""
    owner = new_uid()
    before = workspace.clock.now()
    process = Process.current()
    workspace.database.transact(
        lambda connection: _take(connection, workspace, owner, run_id, process)
    )
    lock = RepositoryLock(workspace, run_id, owner, before + LENGTH)
    try:
        with lock.renewed():
            yield lock
    finally:
        lock.end()


def find_state(workspace: Workspace) -> LockState | None:
    """The lock, if a run holds it or may still be deleting on the strength of it."""
    query = select(locks).where(locks.c.repo_uid == workspace.repo_uid)
    with workspace.database.read() as connection:
        row = connection.execute(query).first()
        now = to_micros(workspace.database.now(connection, workspace.clock))
    state = None if row is None else _state(row)
    return state if state is not None and from_micros(now) < state.free_at else None


def release(workspace: Workspace, seen: LockState) -> datetime:
    """Let a lock expire now whose holder has ended; returns when it is free.

    A request that the holder had sent may still be on its way for as long as a request lasts.
    """
    seen.check_release()

    def work(connection: Connection) -> datetime:
        query = select(locks).where(locks.c.repo_uid == workspace.repo_uid)
        row = connection.execute(query.with_for_update()).first()
        if row is None or _state(row).version != seen.version:
            raise lock_changed()
        now = to_micros(workspace.database.now(connection, workspace.clock))
        expires_at = min(now, row.expires_at)
        connection.execute(
            update(locks)
            .where(locks.c.repo_uid == workspace.repo_uid)
            .values(owner=TASKS, expires_at=expires_at)
        )
        return from_micros(expires_at) + REQUEST

    return workspace.database.transact(work)


def _state(row: Row[Any]) -> LockState:
    return LockState(
        run=row.run_id,
        free_at=from_micros(row.expires_at) + REQUEST,
        process=Process.decode(row.process),
        left_to_tasks=row.owner == TASKS,
        version=f"{row.owner} {row.expires_at}",
    )


def _take(
    connection: Connection,
    workspace: Workspace,
    owner: str,
    run_id: str,
    process: Process | None,
) -> None:
    uid = workspace.repo_uid
    row = connection.execute(select(locks).where(locks.c.repo_uid == uid).with_for_update()).first()
    now = to_micros(workspace.database.now(connection, workspace.clock))
    values = {
        "owner": owner,
        "run_id": run_id,
        "expires_at": now + LENGTH // MICROSECOND,
        "process": None if process is None else process.encode(),
    }
    if row is None:
        connection.execute(insert(locks).values(repo_uid=uid, **values))
        return
    state = _state(row)
    if from_micros(now) < state.free_at:
        raise lock_taken("repository", state)
    connection.execute(update(locks).where(locks.c.repo_uid == uid).values(**values))


def _give_back(workspace: Workspace, owner: str) -> None:
    mine = delete(locks).where(locks.c.repo_uid == workspace.repo_uid, locks.c.owner == owner)
    workspace.database.transact(lambda connection: connection.execute(mine))
