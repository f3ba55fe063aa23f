"""Leases: marks that a commit is in use, so that nothing it needs is collected.

A lease is a row: holder, when it was refreshed, how long it is valid. All instances judge it by
the database's clock. Taking and renewing lock the commit, and condemning updates the same row: a
lease and a condemned commit exclude each other. A lapsed lease cannot be renewed, because its
commit may have been judged without it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from reclaim.catalog import addresses, commits
from reclaim.catalog.database import Database
from reclaim.catalog.names import check_text
from reclaim.catalog.schema import leases
from reclaim.catalog.workspace import Workspace
from reclaim.clock import MICROSECOND, Clock, from_micros, to_micros
from reclaim.errors import InvalidInput, LeaseLapsed, NotFound, ReclaimError, Unavailable
from reclaim.model import Lease, SnapshotId

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How leases are kept. A holder renews well before the collector may think it dead."""

    refresh: timedelta = timedelta(hours=1)
    valid: timedelta = timedelta(hours=2)
    # What a collector may take between reading the leases and its first delete.
    budget: timedelta = timedelta(minutes=15)

    def __post_init__(self) -> None:
        if self.refresh <= timedelta(0) or self.refresh + self.budget >= self.valid:
            raise InvalidInput(
                f"a lease that is refreshed every {self.refresh} cannot be valid for {self.valid}",
                hint="refresh plus budget must stay below valid",
            )


def take(workspace: Workspace, ref: str, *, holder: str, length: timedelta) -> Lease:
    """Take a lease on the commit that a ref names now."""
    check_text(holder)
    if not holder or not timedelta(0) < length <= timedelta(days=3650):
        raise InvalidInput("a lease needs a holder and a length of up to ten years")

    def work(connection: Connection) -> Lease:
        commit = commits.resolve(connection, workspace.repo_uid, ref)
        commits.hold(connection, workspace.repo_uid, [commit.id])
        now = workspace.database.now(connection, workspace.clock)
        lease = Lease(addresses.new_uid(), SnapshotId(commit.id), holder, now, length)
        same = (
            (leases.c.repo_uid == workspace.repo_uid)
            & (leases.c.commit_id == commit.id)
            & (leases.c.holder == holder)
        )
        # One row for a holder and a commit: a newer lease takes the place of the older.
        connection.execute(delete(leases).where(same))
        connection.execute(insert(leases).values(repo_uid=workspace.repo_uid, **_values(lease)))
        return lease

    return workspace.database.transact(work)


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
class Held:
    """A lease of this process, and until when it can be sure of it."""

    lease: Lease
    sure_until: datetime
    uses: int = 0
    lost: ReclaimError | None = field(default=None)


class Leases:
    """The leases of one instance: one for each commit that it reads, renewed in the background."""

    def __init__(self, database: Database, clock: Clock, instance: str) -> None:
        self._database = database
        self._clock = clock
        self._instance = instance
        self._lock = threading.RLock()
        self._held: dict[tuple[str, str], Held] = {}
        self._stop = threading.Event()
        self._renewer: threading.Thread | None = None
        self.times = LeaseTimes()

    @contextmanager
    def hold(self, workspace: Workspace, ref: str) -> Iterator[Held]:
        """Hold a commit for as long as the block runs."""
        with self._lock:
            held = self._take(workspace, ref)
            held.uses += 1
        key = (workspace.repo_uid, held.lease.snapshot)
        try:
            yield held
        finally:
            with self._lock:
                held.uses -= 1
                if held.uses == 0 and self._held.get(key) is held:
                    del self._held[key]
                    self._give_back(workspace.repo_uid, held)

    def check(self, held: Held) -> None:
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
            for (repo_uid, _), held in list(self._held.items()):
                sure_until = self._sure_until()
                try:
                    held.lease = renew(self._database, self._clock, repo_uid, held.lease.id)
                    held.sure_until = sure_until
                except Unavailable as error:
                    # It may come back before the lease lapses; the next try will tell.
                    log.warning("lease %s could not be renewed: %s", held.lease.id, error)
                except ReclaimError as error:
                    held.lost = error

    def close(self) -> None:
        self._stop.set()

    def _take(self, workspace: Workspace, ref: str) -> Held:
        with self._database.read() as connection:
            commit = commits.resolve(connection, workspace.repo_uid, ref)
        key = (workspace.repo_uid, commit.id)
        held = self._held.get(key)
        if held is None or held.lost is not None or self._clock.now() >= held.sure_until:
            sure_until = self._sure_until()
            lease = take(workspace, commit.id, holder=self._instance, length=self.times.valid)
            held = self._held[key] = Held(lease, sure_until)
            self._start_renewer()
        return held

    def _sure_until(self) -> datetime:
        """Counted from before the request, so that it errs on the early side."""
        return self._clock.now() + self.times.valid - self.times.budget

    def _give_back(self, repo_uid: str, held: Held) -> None:
        try:
            release(self._database, repo_uid, held.lease.id)
        except ReclaimError as error:
            # Harmless: a lease only keeps things, and it lapses by itself.
            log.warning("lease %s was not given back: %s", held.lease.id, error)

    def _start_renewer(self) -> None:
        if self._renewer is None:
            self._renewer = threading.Thread(
                target=self._keep_renewing, name="reclaim-leases", daemon=True
            )
            self._renewer.start()

    def _keep_renewing(self) -> None:
        while not self._stop.wait(self.times.refresh.total_seconds()):
            self.renew()
