"""The lock of a repository: one apply, undo or purge at a time.

A lock has an owner and an expiry, by the database's clock. Executors cannot be fenced by a
database, so whoever deletes for the owner stops ``REQUEST`` before the expiry, and the lock is
taken over only ``REQUEST`` after it: a request that was sent in time has ended by then.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from sqlalchemy import Connection, delete, insert, select, update

from reclaim.catalog import addresses
from reclaim.catalog.schema import locks
from reclaim.catalog.workspace import Workspace
from reclaim.clock import MICROSECOND, from_micros, to_micros
from reclaim.errors import Conflict, LockLost, ReclaimError

log = logging.getLogger(__name__)

LENGTH = timedelta(minutes=10)
REQUEST = timedelta(minutes=1)
"""The longest that one request to the storage may take."""


class Lock:
    """A lock that this process holds and renews in the background."""

    def __init__(self, workspace: Workspace, run_id: str, owner: str, sure_until: datetime) -> None:
        self._workspace = workspace
        self.run_id = run_id
        self.owner = owner
        self._sure_until = sure_until
        self._stop = threading.Event()
        self._renewer: threading.Thread | None = None

    def remaining(self) -> timedelta:
        """For how long a delete may still be sent on the strength of this lock."""
        return self._sure_until - REQUEST - self._workspace.clock.now()

    def check(self) -> None:
        """Fail once the lock may be taken over by someone else."""
        if self.remaining() <= timedelta(0):
            raise LockLost(
                f"run {self.run_id} could not renew its lock in time and stopped",
                hint="apply it again; it finishes the rest",
            )

    def renew(self) -> None:
        """Hold the lock for its whole length from now on."""
        before = self._workspace.clock.now()

        def work(connection: Connection) -> int:
            now = to_micros(self._workspace.database.now(connection, self._workspace.clock))
            mine = update(locks).where(
                locks.c.repo_uid == self._workspace.repo_uid,
                locks.c.owner == self.owner,
                locks.c.expires_at > now,
            )
            return connection.execute(mine.values(expires_at=now + LENGTH // MICROSECOND)).rowcount

        if not self._workspace.database.transact(work):
            self._sure_until = before
            self.check()
        self._sure_until = before + LENGTH

    def assure(self, connection: Connection) -> None:
        """Fail in a transaction of the run unless it holds the lock as the transaction commits.

        A slow run must not go on from marks that another has taken off meanwhile.
        """
        query = select(locks.c.expires_at).where(
            locks.c.repo_uid == self._workspace.repo_uid, locks.c.owner == self.owner
        )
        expires_at = connection.execute(query.with_for_update(read=True)).scalar()
        now = to_micros(self._workspace.database.now(connection, self._workspace.clock))
        if expires_at is None or now >= expires_at:
            raise LockLost(
                f"run {self.run_id} lost its lock and stopped",
                hint="apply it again; it finishes the rest",
            )

    def start(self) -> None:
        self._renewer = threading.Thread(target=self._keep, name="reclaim-lock", daemon=True)
        self._renewer.start()

    def stop(self) -> None:
        self._stop.set()
        if self._renewer is not None:
            self._renewer.join()

    def _keep(self) -> None:
        while not self._stop.wait((LENGTH / 4).total_seconds()):
            try:
                self.renew()
            except ReclaimError as error:
                # The next try may succeed; until then ``check`` stops the run in time.
                log.warning("the lock of run %s was not renewed: %s", self.run_id, error)


@contextmanager
def hold(workspace: Workspace, run_id: str) -> Iterator[Lock]:
    """Hold the lock of a repository while the block runs; a ``Conflict`` if another run has it."""
    owner = addresses.new_uid()
    before = workspace.clock.now()
    workspace.database.transact(lambda connection: _take(connection, workspace, owner, run_id))
    lock = Lock(workspace, run_id, owner, before + LENGTH)
    lock.start()
    try:
        yield lock
    finally:
        lock.stop()
        _give_back(workspace, owner)


def holder(connection: Connection, workspace: Workspace) -> str | None:
    """The run that holds the lock, or may still be deleting on the strength of it."""
    query = select(locks).where(locks.c.repo_uid == workspace.repo_uid)
    row = connection.execute(query).first()
    now = to_micros(workspace.database.now(connection, workspace.clock))
    if row is None or now >= row.expires_at + REQUEST // MICROSECOND:
        return None
    return str(row.run_id)


def _take(connection: Connection, workspace: Workspace, owner: str, run_id: str) -> None:
    uid = workspace.repo_uid
    row = connection.execute(select(locks).where(locks.c.repo_uid == uid).with_for_update()).first()
    now = to_micros(workspace.database.now(connection, workspace.clock))
    values = {"owner": owner, "run_id": run_id, "expires_at": now + LENGTH // MICROSECOND}
    if row is None:
        connection.execute(insert(locks).values(repo_uid=uid, **values))
        return
    free_at = row.expires_at + REQUEST // MICROSECOND
    if now < free_at:
        raise Conflict(
            f"run {row.run_id} is working on this repository",
            hint=f"wait for it; if it has died, the lock is free at {from_micros(free_at):%F %T} "
            "UTC",
            run=row.run_id,
        )
    connection.execute(update(locks).where(locks.c.repo_uid == uid).values(**values))


def _give_back(workspace: Workspace, owner: str) -> None:
    mine = delete(locks).where(locks.c.repo_uid == workspace.repo_uid, locks.c.owner == owner)
    try:
        workspace.database.transact(lambda connection: connection.execute(mine))
    except ReclaimError as error:
        log.warning("a lock was not given back; it is free in %s: %s", LENGTH + REQUEST, error)
