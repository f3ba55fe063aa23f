"""Leases: marks of commits in use, protecting everything they need from collection.

A lease is a row with holder, time of refresh and length. All instances judge it by the clock of the
database. Taking and renewing lock the commit, and condemning updates the same row: a lease and a
condemned commit exclude each other. A lapsed lease cannot be renewed, because a run may have judged
its commit without it.
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
    """Times of leases. A holder renews well before the collector may consider it dead."""

    refresh: timedelta = SAFETY.lease_refresh
    valid: timedelta = SAFETY.lease_length
    # Maximum time of a collector between reading the leases and its first delete.
    budget: timedelta = SAFETY.budget

    def __post_init__(self) -> None:
        if self.refresh <= timedelta(0) or self.refresh + self.budget >= self.valid:
            raise InvalidInput(
                f"a lease that is refreshed every {self.refresh} cannot be valid for {self.valid}",
                hint="refresh plus budget must stay below valid",
            )


def take(workspace: Workspace, ref: str, *, holder: str, length: timedelta) -> Lease:
    """Take a lease on the current commit of a ref."""
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
    """Take a lease on a commit within a transaction. An existing lease is never shortened."""
    reference_lock.share(connection, workspace.repo_uid)
    commits.hold(connection, workspace.repo_uid, [commit_id])
    now = workspace.database.now(connection, workspace.clock)
    same = (
        (leases.c.repo_uid == workspace.repo_uid)
        & (leases.c.commit_id == commit_id)
        & (leases.c.holder == holder)
    )
    # A single row per holder and commit: a newer lease replaces the older.
    until = [now + length]
    for row in connection.execute(select(leases).where(same).with_for_update()):
        older = _lease(row)
        until.append(older.refreshed_at + older.length)
    lease = Lease(new_uid(), SnapshotId(commit_id), holder, now, max(until) - now)
    connection.execute(delete(leases).where(same))
    connection.execute(insert(leases).values(repo_uid=workspace.repo_uid, **_values(lease)))
    return lease


def renew(database: Database, clock: Clock, repo_uid: str, lease_id: str) -> Lease:
    """Renew a lease for its length from now on."""

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
                hint="take a new lease, which checks the commit again",
            )
        commits.hold(connection, repo_uid, [row.commit_id])
        connection.execute(
            update(leases).where(leases.c.id == lease_id).values(refreshed_at=to_micros(now))
        )
        return replace(_lease(row), refreshed_at=now)

    return database.transact(work)


def release(database: Database, repo_uid: str, lease_id: str) -> None:
    """Release a lease."""
    statement = delete(leases).where(leases.c.repo_uid == repo_uid, leases.c.id == lease_id)
    if not database.transact(lambda connection: connection.execute(statement).rowcount):
        raise NotFound(f"there is no lease {lease_id}", hint="see `reclaim lease list`")


def list_leases(connection: Connection, repo_uid: str) -> list[Lease]:
    """Return all leases of a repository, oldest first, including lapsed leases."""
    query = select(leases).where(leases.c.repo_uid == repo_uid)
    return [
        _lease(row)
        for row in connection.execute(query.order_by(leases.c.refreshed_at, leases.c.id))
    ]


def list_with_validity(workspace: Workspace) -> list[tuple[Lease, bool]]:
    """Return all leases of a repository with their validity by the database's clock."""
    with workspace.database.read() as connection:
        now = workspace.database.now(connection, workspace.clock)
        listed = list_leases(connection, workspace.repo_uid)
    return [(lease, lease.valid_at(now)) for lease in listed]


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
    """Lease of this process, and the time until which it is certainly respected."""

    repo_uid: str
    lease: Lease
    sure_until: datetime
    uses: int = 0
    lost: ReclaimError | None = field(default=None)


class LeaseHandle:
    """A reader's use of a lease, until it is closed or garbage collected by Python."""

    def __init__(self, leases: CommitLeases, held: OwnLease) -> None:
        self._leases = leases
        self._held = held
        # Python may collect garbage in the middle of any transaction, where no other may begin.
        # So the end of use is only recorded here; the renewal thread releases the lease.
        self._unused = weakref.finalize(
            self, leases.renewal.run_soon, partial(leases.end_use, held)
        )
        self._unused.atexit = False

    @property
    def commit(self) -> str:
        """Commit protected by the lease."""
        return self._held.lease.snapshot

    def check(self) -> None:
        """Fail once the holder cannot be sure of the lease any more."""
        self._leases.check(self._held)

    def close(self) -> None:
        if self._unused.detach() is not None:
            self._leases.end_use(self._held)


class CommitLeases:
    """Leases of an instance: one for each commit it reads, renewed in the background."""

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
        """Take a lease on the current commit of a ref, until its use ends."""
        with self._lock:
            held = self._take(workspace, ref)
            held.uses += 1
            return LeaseHandle(self, held)

    def open_if_writable(self, workspace: Workspace, ref: str) -> LeaseHandle:
        """Like ``open``; without a lease if the database cannot be written.

        This is the case for a read-only database or a full disk, but not for a lost connection.
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
        """Keep a lease on a commit during the block."""
        use = self.open(workspace, ref)
        try:
            yield use
        finally:
            use.close()

    def check(self, held: OwnLease) -> None:
        """Fail once the holder cannot be sure that the collector respects its lease.

        A holder that could not renew stops here, before any instance may assume it dead.
        """
        if held.lost is not None:
            raise held.lost
        if self._clock.now() >= held.sure_until:
            raise LeaseLapsed(
                f"the lease on {held.lease.snapshot} could not be renewed in time",
                hint="open the commit again; that checks that it is still there",
            )

    def renew(self) -> None:
        """Renew every lease; the next use of a lost lease fails."""
        with self._lock:
            for held in list(self._held.values()):
                sure_until = self._sure_until()
                try:
                    held.lease = renew(self._database, self._clock, held.repo_uid, held.lease.id)
                    held.sure_until = sure_until
                except (Unavailable, commits.BeingCollected) as error:
                    # The database may recover, or the run may release the commit because of this
                    # lease; the next attempt will show.
                    log.warning("could not renew lease %s: %s", held.lease.id, error)
                except ReclaimError as error:
                    held.lost = error

    def end_use(self, held: OwnLease) -> None:
        """Release a lease with its last use."""
        with self._lock:
            held.uses -= 1
            key = (held.repo_uid, held.lease.snapshot)
            if held.uses == 0 and self._held.get(key) is held:
                del self._held[key]
                try:
                    release(self._database, held.repo_uid, held.lease.id)
                except ReclaimError as error:
                    # Harmless: a lease only protects, and it lapses by itself.
                    log.warning("could not release lease %s: %s", held.lease.id, error)

    def close(self) -> None:
        """Release all leases in a single transaction. Their readers must stop."""
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
            statement = delete(leases).where(leases.c.holder == self._instance)
            try:
                self._database.transact(lambda connection: connection.execute(statement))
            except ReclaimError as error:
                log.warning("could not release leases of %s: %s", self._instance, error)

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
        """End of certainty, counted from before the request and therefore early."""
        return self._clock.now() + self.times.valid - self.times.budget
