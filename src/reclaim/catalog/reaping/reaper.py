"""Reaper: deletes condemned objects not owned by a run, after a safety margin.

Why no needed object is deleted:

- Condemned is final. An address is condemned only if no staged row in an open,
  sealed or committed token refers to it, and only if it has a row in the
  ledger, which a commit removes. Any new reference locks this row and is
  refused if the row is condemned.
- Objects are deleted first and recorded afterwards. A crash in between leaves
  rows of deleted objects, which are tried again; concurrent reapers repeat
  each other's work without harm.
- Objects possibly quarantined by an undoable run are left to this run.
- Ages are judged by a clock that agrees with the storage's.
- Before each batch the reaper checks in the storage that this database may
  delete there and knows every epoch marker. A copy of the database deletes
  nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import Connection, tuple_, update

from reclaim.catalog import addresses
from reclaim.catalog.collection.clones.epochs import check_epoch
from reclaim.catalog.collection.clones.homes import Home
from reclaim.catalog.database.schema import LedgerState, ledger
from reclaim.catalog.database.sets import among
from reclaim.catalog.database.transactions import Database
from reclaim.catalog.reaping import obsolete_rows
from reclaim.catalog.reaping.backlog import add_reaped, due_rows, promised_until
from reclaim.catalog.settings import read_settings
from reclaim.catalog.staging import cleaner
from reclaim.catalog.staging.upload_expiry import expire_uploads, has_expired_uploads
from reclaim.clock import Clock, to_micros
from reclaim.errors import OwnedAddress, ReclaimError
from reclaim.ids import new_uid
from reclaim.storage import Storage
from reclaim.storage.clocks import check_clock
from reclaim.storage.pace import Pace

BATCH = 250

log = logging.getLogger(__name__)


class Due(NamedTuple):
    """Object to delete."""

    address: str
    condemned_at: int
    size: int | None


@dataclass(frozen=True, slots=True)
class Reaped:
    """Result of a round on a repository."""

    repo_uid: str
    objects: int = 0
    bytes: int = 0
    failed: int = 0
    """Objects that could not be deleted; the next round retries them."""
    rows: int = 0
    """Obsolete rows removed from the database."""


@dataclass(slots=True)
class Reaper:
    """Reaper of an opened catalog."""

    database: Database
    storage: Storage
    clock: Clock
    home: Home
    pace: Pace = field(default_factory=Pace)
    stopped: Callable[[], bool] = lambda: False

    def reap(self, repo_uid: str) -> Reaped:
        """Clean, expire uploads, and delete due objects if ``hard_delete`` is on.

        Obsolete rows are removed in any case.
        """
        self._check(repo_uid)
        cleaned = cleaner.clean(self.database, self.clock, repo_uid)
        if self._has_expired_work(repo_uid):
            self._check_clock(repo_uid)
        expire_uploads(self.database, self.clock, repo_uid)
        objects = size = failed = 0
        last: Due | None = None
        while (due := self._next(repo_uid, last)) and not self.stopped():
            self._check(repo_uid)
            last = due[-1]
            gone = self._delete(repo_uid, due)
            self._note(repo_uid, gone)
            objects += len(gone)
            size += sum(item.size or 0 for item in gone)
            failed += len(due) - len(gone)
        rows = obsolete_rows.remove(self.database, self.clock, repo_uid)
        return Reaped(repo_uid, objects, size, failed, cleaned.rows + rows)

    def _check(self, repo_uid: str) -> None:
        """Refuse unless this database may delete in the storage."""
        self.home.require()
        check_epoch(self.database, self.storage, repo_uid)

    def _has_expired_work(self, repo_uid: str) -> bool:
        """Whether this round would end or delete anything because of its age."""
        return (
            bool(self._next(repo_uid, None))
            or has_expired_uploads(self.database, self.clock, repo_uid)
            or obsolete_rows.has_any(self.database, self.clock, repo_uid)
        )

    def _check_clock(self, repo_uid: str) -> None:
        probe = addresses.run(repo_uid, "reaper") + f"clock-{new_uid()}"
        with self.database.read() as connection:
            now = self.database.now(connection, self.clock)
        # Ages compare this clock with write times of the storage's clock.
        check_clock(self.storage, probe, now)

    def _next(self, repo_uid: str, last: Due | None) -> Sequence[Due]:
        """Return the next batch; objects of the last batch remain if they could not be deleted."""
        with self.database.read() as connection:
            if not read_settings(connection, repo_uid).hard_delete:
                return ()
            now = to_micros(self.database.now(connection, self.clock))
            query = due_rows(repo_uid, now, promised_until(connection, repo_uid))
            if last is not None:
                place = tuple_(ledger.c.condemned_at, ledger.c.address)
                query = query.where(place > (last.condemned_at, last.address))
            return [Due(*row) for row in connection.execute(query.limit(BATCH))]

    def _delete(self, repo_uid: str, due: Sequence[Due]) -> Sequence[Due]:
        """Delete objects; return those deleted."""
        check_inside(repo_uid, due)
        outcomes = self.pace.take(
            due,
            together=self._delete_together,
            singly=self._delete_one,
            failed=_failed,
            in_time=lambda: not self.stopped(),
        )
        return [item for item, gone in zip(due, outcomes or (), strict=False) if gone]

    def _delete_together(self, due: Sequence[Due]) -> Sequence[bool]:
        self.storage.delete_page([item.address for item in due])
        return [True] * len(due)

    def _delete_one(self, due: Due) -> bool:
        self.storage.delete(due.address)
        return True

    def _note(self, repo_uid: str, gone: Sequence[Due]) -> None:
        """Record the deletion of objects; their rows are removed a day later."""
        if not gone:
            return

        def work(connection: Connection) -> None:
            deleted = connection.execute(
                update(ledger)
                .where(
                    among(connection, ledger.c.address, [item.address for item in gone]),
                    ledger.c.state == LedgerState.CONDEMNED,
                    ledger.c.run_id.is_(None),
                )
                .values(state=LedgerState.DELETED)
                .returning(ledger.c.size)
            ).scalars()
            # Among concurrent reapers, a row counts for the reaper that updates it.
            sizes = [size or 0 for size in deleted]
            if sizes:
                now = to_micros(self.database.now(connection, self.clock))
                add_reaped(connection, repo_uid, len(sizes), sum(sizes), now)

        self.database.transact(work)


def check_inside(repo_uid: str, due: Sequence[Due]) -> None:
    """Refuse addresses that are not objects of the repository, whatever the ledger says."""
    inside = f"{addresses.repository(repo_uid)}branches/"
    for item in due:
        if not item.address.startswith(inside):
            raise OwnedAddress(
                f"{item.address!r} is outside {inside}; refusing to delete it",
                hint="the ledger of this catalog is damaged",
            )


def _failed(error: ReclaimError) -> bool:
    log.warning("could not delete a condemned object: %s", error)
    return False
