"""Lock of a repository: a single apply, undo or purge at a time.

A lock is a row with its owner, the owner's process, and its expiry by the database's clock.
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
    """Lock of a repository, held by a run."""

    def __init__(self, workspace: Workspace, run_id: str, owner: str, sure_until: datetime) -> None:
        super().__init__(workspace.clock, run_id, sure_until)
        self._workspace = workspace
        self.owner = owner

    def renew(self) -> None:
        before = self._clock.now()

        def work(connection: Connection) -> int:
            now = to_micros(self._workspace.database.now(connection, self._clock))
            own_lock = update(locks).where(
                locks.c.repo_uid == self._workspace.repo_uid,
                locks.c.owner == self.owner,
                locks.c.expires_at > now,
            )
            expires_at = now + LENGTH // MICROSECOND
            values = own_lock.values(expires_at=expires_at, process=self._process_text)
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
            own_lock = update(locks).where(
                locks.c.repo_uid == self._workspace.repo_uid, locks.c.owner == self.owner
            )
            connection.execute(own_lock.values(owner=TASKS, expires_at=now + time // MICROSECOND))

        self._workspace.database.transact(work)

    def assure(self, connection: Connection) -> None:
        """Fail in a transaction of the run unless it holds the lock when the transaction commits.

        A slow run must not rely on marks already removed by another run.
        """
        query = select(locks.c.expires_at).where(
            locks.c.repo_uid == self._workspace.repo_uid, locks.c.owner == self.owner
        )
        expires_at = connection.execute(query.with_for_update(read=True)).scalar()
        now = to_micros(self._workspace.database.now(connection, self._clock))
        if expires_at is None or now >= expires_at:
            raise LockLost(
                f"run {self.run_id} lost its lock and stopped",
                hint="apply the plan again to finish it",
            )


@contextmanager
def hold(workspace: Workspace, run_id: str) -> Iterator[RepositoryLock]:
    """Hold the lock of a repository during the block; ``Conflict`` if another run holds it."""
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
    """Return the lock if a run holds it, or may still be deleting because it held it."""
    query = select(locks).where(locks.c.repo_uid == workspace.repo_uid)
    with workspace.database.read() as connection:
        row = connection.execute(query).first()
        now = to_micros(workspace.database.now(connection, workspace.clock))
    state = None if row is None else _state(row)
    return state if state is not None and from_micros(now) < state.free_at else None


def release(workspace: Workspace, seen: LockState) -> datetime:
    """Expire the lock of a dead holder; return the time at which it becomes free.

    A request sent by the holder may still be in progress for the maximum duration of a request.
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
    own_lock = delete(locks).where(locks.c.repo_uid == workspace.repo_uid, locks.c.owner == owner)
    workspace.database.transact(lambda connection: connection.execute(own_lock))
