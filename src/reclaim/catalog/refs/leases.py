"""Leases: marks that a commit is in use, so that nothing it needs is collected.

A lease is a row: holder, when it was refreshed, how long it is valid. All instances judge it by
the database's clock. Taking and renewing lock the commit, and condemning updates the same row: a
lease and a condemned commit exclude each other. A lapsed lease cannot be renewed, because its
commit may have been judged without it.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from reclaim.catalog.database.schema import leases
from reclaim.catalog.database.transactions import ConnectionLost, Database
from reclaim.catalog.names import check_text
from reclaim.catalog.refs import commits
from reclaim.catalog.staging import reference_lock
from reclaim.catalog.workspace import Workspace
from reclaim.clock import MICROSECOND, Clock, from_micros, to_micros
from reclaim.errors import (
    DatabaseUnavailable,
    InvalidInput,
    LeaseLapsed,
    NotFound,
    OutOfSpace,
    ReclaimError,
    Unavailable,
)
from reclaim.ids import new_uid
from reclaim.lease import check_length
from reclaim.model import Lease, SnapshotId
from reclaim.renewal import Renewal
from reclaim.safety import SAFETY

log = logging.getLogger(__name__)

_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How leases are kept. A holder renews well before the collector may think it dead."""

    refresh: timedelta = SAFETY.lease_refresh
    valid: timedelta = SAFETY.lease_length
    # What a collector may take between reading the leases and its first delete.
    budget: timedelta = SAFETY.budget

    def __post_init__(self) -> None:
        if self.refresh <= timedelta(0) or self.refresh + self.budget >= self.valid:
            raise InvalidInput(
                f"a lease that is refreshed every {self.refresh} cannot be valid for {self.valid}",
                hint="refresh plus budget must stay below valid",
            )


def take(workspace: Workspace, ref: str, *, holder: str, length: timedelta) -> Lease:
    """Take a lease on the commit that a ref names now."""
    check_text(holder)
    if not holder:
        raise InvalidInput("a lease needs a holder")
    check_length(length)

    def work(connection: Connection) -> Lease:
        commit = commits.resolve(connection, workspace.repo_uid, ref)
        return hold(connection, workspace, commit.id, holder=holder, length=length)

    return workspace.database.transact(work)


def hold(
    connection: Connection, workspace: Workspace, commit_id: str, *, holder: str, length: timedelta
) -> Lease:
    """Take a lease on a commit, in a transaction. One that the holder has is never shortened."""
    reference_lock.share(connection, workspace.repo_uid)
    commits.hold(connection, workspace.repo_uid, [commit_id])
    now = workspace.database.now(connection, workspace.clock)
    same = (
        (leases.c.repo_uid == workspace.repo_uid)
        & (leases.c.commit_id == commit_id)
        & (leases.c.holder == holder)
    )
    # One row for a holder and a commit: a newer lease takes the place of the older.
    until = [now + length]
    for row in connection.execute(select(leases).where(same).with_for_update()):
        older = _lease(row)
        until.append(older.refreshed_at + older.length)
    lease = Lease(new_uid(), SnapshotId(commit_id), holder, now, max(until) - now)
    connection.execute(delete(leases).where(same))
    connection.execute(insert(leases).values(repo_uid=workspace.repo_uid, **_values(lease)))
    return lease


def renew(database: Database, clock: Clock, repo_uid: str, lease_id: str) -> Lease:
    """Make a lease valid for its length from now on."""

    def work(connection: Connection) -> Lease:
        row = connection.execute(
            select(leases)
            .where(leases.c.repo_uid == repo_uid, leases.c.id == lease_id)
            .with_for_update()
        ).first()
        now = database.now(connection, clock)
        if row is None or not _lease(row).valid_at(now):
            raise LeaseLapsed(
                f"the lease {lease_id} lapsed and cannot be renewed",
                hint="take a new one; that checks that the commit is still there",
            )
        commits.hold(connection, repo_uid, [row.commit_id])
        connection.execute(
            update(leases).where(leases.c.id == lease_id).values(refreshed_at=to_micros(now))
        )
        return replace(_lease(row), refreshed_at=now)

    return database.transact(work)


def release(database: Database, repo_uid: str, lease_id: str) -> None:
    """Give a lease back."""
    mine = delete(leases).where(leases.c.repo_uid == repo_uid, leases.c.id == lease_id)
    if not database.transact(lambda connection: connection.execute(mine).rowcount):
        raise NotFound(f"there is no lease {lease_id}", hint="see `reclaim lease list`")


def list_leases(connection: Connection, repo_uid: str) -> list[Lease]:
    """All leases of a repository, the oldest first; lapsed ones are among them."""
    query = select(leases).where(leases.c.repo_uid == repo_uid)
    return [
        _lease(row)
        for row in connection.execute(query.order_by(leases.c.refreshed_at, leases.c.id))
    ]


def list_with_validity(workspace: Workspace) -> list[tuple[Lease, bool]]:
    """All leases of a repository, and whether each is valid by the database's clock."""
    with workspace.database.read() as connection:
        now = workspace.database.now(connection, workspace.clock)
        every = list_leases(connection, workspace.repo_uid)
    return [(lease, lease.valid_at(now)) for lease in every]


def _lease(row: Any) -> Lease:
    return Lease(
        row.id,
        SnapshotId(row.commit_id),
        row.holder,
        from_micros(row.refreshed_at),
        row.length * MICROSECOND,
    )


def _values(lease: Lease) -> dict[str, Any]:
    return {
        "id": lease.id,
        "commit_id": lease.snapshot,
        "holder": lease.holder,
        "refreshed_at": to_micros(lease.refreshed_at),
        "length": lease.length // MICROSECOND,
    }


@dataclass(slots=True)
class OwnLease:
    """A lease of this process, and until when it can be sure of it."""

    repo_uid: str
    lease: Lease
    sure_until: datetime
    uses: int = 0
    lost: ReclaimError | None = field(default=None)


class LeaseHandle:
    """One reader's use of a lease. It ends when it is closed, or by itself as garbage."""

    def __init__(self, leases: CommitLeases, held: OwnLease) -> None:
        self._leases = leases
        self._held = held
        # Garbage can be collected in the middle of any transaction, where the database must not
        # be asked for another: the end is only noted, and the renewal sees to the rest.
        self._unused = weakref.finalize(
            self, leases.renewal.run_soon, partial(leases.end_use, held)
        )
        self._unused.atexit = False

    @property
    def commit(self) -> str:
        """The commit that is held."""
        return self._held.lease.snapshot

    def check(self) -> None:
        """Fail once the holder can no longer be sure that the collector respects its lease."""
        self._leases.check(self._held)

    def close(self) -> None:
        if self._unused.detach() is not None:
            self._leases.end_use(self._held)


class CommitLeases:
    """The leases of one instance: one for each commit that it reads, renewed in the background."""

    def __init__(self, database: Database, clock: Clock, instance: str) -> None:
        self._database = database
        self._clock = clock
        self._instance = instance
        self._lock = threading.RLock()
        self._held: dict[tuple[str, str], OwnLease] = {}
        self._warned = False
        self.renewal = Renewal(self, f"the leases of {instance}")
        self.times = LeaseTimes()

    def open(self, workspace: Workspace, ref: str) -> LeaseHandle:
        """Hold the commit that a ref names now, until the use of it ends."""
        with self._lock:
            held = self._take(workspace, ref)
            held.uses += 1
            return LeaseHandle(self, held)

    def open_if_writable(self, workspace: Workspace, ref: str) -> LeaseHandle:
        """The same; of a database that cannot be written, the commit without a lease on it.

        That is one that is read-only, or whose disk is full. A connection that was lost is not a
        reason.
        """
        try:
            return self.open(workspace, ref)
        except (DatabaseUnavailable, OutOfSpace) as error:
            if ConnectionLost in (type(error), type(error.__cause__)):
                raise
            if not self._warned:
                self._warned = True
                log.warning("commits are read without a lease: %s", error)
            with self._database.read() as connection:
                commit = commits.resolve(connection, workspace.repo_uid, ref)
            lease = Lease("", SnapshotId(commit.id), self._instance, _NEVER, timedelta(0))
            return LeaseHandle(self, OwnLease(workspace.repo_uid, lease, sure_until=_NEVER))

    @contextmanager
    def hold(self, workspace: Workspace, ref: str) -> Iterator[LeaseHandle]:
        """Hold a commit for as long as the block runs."""
        use = self.open(workspace, ref)
        try:
            yield use
        finally:
            use.close()

    def check(self, held: OwnLease) -> None:
        """Fail once the holder can no longer be sure that the collector respects its lease.

        A holder that could not renew stops itself here, before anyone may assume it dead.
        """
        if held.lost is not None:
            raise held.lost
        if self._clock.now() >= held.sure_until:
            raise LeaseLapsed(
                f"the lease on {held.lease.snapshot} could not be renewed in time",
                hint="open the commit again; that checks that it is still there",
            )

    def renew(self) -> None:
        """Renew every lease; one that is lost says so at its next use."""
        with self._lock:
            for held in list(self._held.values()):
                sure_until = self._sure_until()
                try:
                    held.lease = renew(self._database, self._clock, held.repo_uid, held.lease.id)
                    held.sure_until = sure_until
                except (Unavailable, commits.BeingCollected) as error:
                    # The database may come back, or the run release the commit, for which this
                    # very lease is a reason; the next try will tell.
                    log.warning("lease %s could not be renewed: %s", held.lease.id, error)
                except ReclaimError as error:
                    held.lost = error

    def end_use(self, held: OwnLease) -> None:
        """Give a lease back with its last use."""
        with self._lock:
            held.uses -= 1
            key = (held.repo_uid, held.lease.snapshot)
            if held.uses == 0 and self._held.get(key) is held:
                del self._held[key]
                try:
                    release(self._database, held.repo_uid, held.lease.id)
                except ReclaimError as error:
                    # Harmless: a lease only keeps things, and it lapses by itself.
                    log.warning("lease %s was not released: %s", held.lease.id, error)

    def close(self) -> None:
        """Give all leases back in one transaction. Who still reads by one of them must stop."""
        self.renewal.close()
        with self._lock:
            if not self._held:
                return
            for held in self._held.values():
                held.lost = LeaseLapsed(
                    f"the lease on {held.lease.snapshot} was released: the catalog was closed",
                    hint="open the catalog again",
                )
            self._held.clear()
            mine = delete(leases).where(leases.c.holder == self._instance)
            try:
                self._database.transact(lambda connection: connection.execute(mine))
            except ReclaimError as error:
                log.warning("leases of %s were not released: %s", self._instance, error)

    def _take(self, workspace: Workspace, ref: str) -> OwnLease:
        with self._database.read() as connection:
            commit = commits.resolve(connection, workspace.repo_uid, ref)
        key = (workspace.repo_uid, commit.id)
        held = self._held.get(key)
        if held is None or held.lost is not None or self._clock.now() >= held.sure_until:
            sure_until = self._sure_until()
            lease = take(workspace, commit.id, holder=self._instance, length=self.times.valid)
            held = self._held[key] = OwnLease(workspace.repo_uid, lease, sure_until)
            self.renewal.start(self.times.refresh)
        return held

    def _sure_until(self) -> datetime:
        """Counted from before the request, so that it errs on the early side."""
        return self._clock.now() + self.times.valid - self.times.budget
