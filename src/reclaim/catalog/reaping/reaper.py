"""The reaper: deletes condemned objects that no run owns, after a margin.

Why nothing that is needed goes:

- Condemned is terminal. An address is condemned only when no staged row in an open, sealed or
  committed token refers to it, and only if it has a row in the ledger, which a commit takes out.
  Whoever refers to an address again locks its row, and refuses a condemned one.
- Objects go first, and are noted then. Whoever dies in between leaves rows of objects that are
  gone, which are tried again; several reapers at once do the same twice.
- What a run that can be undone may have set aside is left to that run.
- Ages are judged by a clock that agrees with the storage's.
- Before each batch the storage is asked whether this database is the one that may delete there,
  and whether it knows every epoch that was left there. A copy of the database deletes nothing.
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
from reclaim.catalog.reaping import needless_rows
from reclaim.catalog.reaping.backlog import add_reaped, due_rows, promised_until
from reclaim.catalog.settings import read_settings
from reclaim.catalog.staging import cleaner
from reclaim.catalog.staging.upload_expiry import expire_uploads, is_any_over
from reclaim.clock import Clock, to_micros
from reclaim.errors import OwnedAddress, ReclaimError
from reclaim.ids import new_uid
from reclaim.storage import Storage
from reclaim.storage.clocks import check_clock
from reclaim.storage.pace import Pace

BATCH = 250

log = logging.getLogger(__name__)


class Due(NamedTuple):
    """An object to delete."""

    address: str
    condemned_at: int
    size: int | None


@dataclass(frozen=True, slots=True)
class Reaped:
    """The work of one round on a repository."""

    repo_uid: str
    objects: int = 0
    bytes: int = 0
    failed: int = 0
    """Objects that could not be deleted; the next round tries them again."""
    rows: int = 0
    """Rows of the database that nobody needs any more."""


@dataclass(slots=True)
class Reaper:
    """The reaper of one opened catalog."""

    database: Database
    storage: Storage
    clock: Clock
    home: Home
    pace: Pace = field(default_factory=Pace)
    stopped: Callable[[], bool] = lambda: False

    def reap(self, repo_uid: str) -> Reaped:
        """Clean, expire what is out of time, and delete what is due, if the repository is told to.

        Rows that nobody needs are removed in any case.
        """
        self._check(repo_uid)
        cleaned = cleaner.clean(self.database, self.clock, repo_uid)
        if self._is_something_over(repo_uid):
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
            size += sum(one.size or 0 for one in gone)
            failed += len(due) - len(gone)
        rows = needless_rows.remove(self.database, self.clock, repo_uid)
        return Reaped(repo_uid, objects, size, failed, cleaned.rows + rows)

    def _check(self, repo_uid: str) -> None:
        """Refuse, unless this database may delete in the storage."""
        self.home.require()
        check_epoch(self.database, self.storage, repo_uid)

    def _is_something_over(self, repo_uid: str) -> bool:
        """Whether anything would end or go in this round because its time is over."""
        return (
            bool(self._next(repo_uid, None))
            or is_any_over(self.database, self.clock, repo_uid)
            or needless_rows.is_any_over(self.database, self.clock, repo_uid)
        )

    def _check_clock(self, repo_uid: str) -> None:
        probe = addresses.run(repo_uid, "reaper") + f"clock-{new_uid()}"
        with self.database.read() as connection:
            now = self.database.now(connection, self.clock)
        # By this clock things are over, and by the storage's they were written.
        check_clock(self.storage, probe, now)

    def _next(self, repo_uid: str, last: Due | None) -> Sequence[Due]:
        """The next batch, after one of which some may be left because they could not be deleted."""
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
        """Delete objects; returns those that are gone."""
        check_inside(repo_uid, due)
        outcomes = self.pace.take(
            due,
            together=self._delete_together,
            singly=self._delete_one,
            failed=_failed,
            in_time=lambda: not self.stopped(),
        )
        return [one for one, gone in zip(due, outcomes or (), strict=False) if gone]

    def _delete_together(self, due: Sequence[Due]) -> Sequence[bool]:
        self.storage.delete_page([one.address for one in due])
        return [True] * len(due)

    def _delete_one(self, due: Due) -> bool:
        self.storage.delete(due.address)
        return True

    def _note(self, repo_uid: str, gone: Sequence[Due]) -> None:
        """Note of objects that they are gone; a day later their rows go as well."""
        if not gone:
            return

        def work(connection: Connection) -> None:
            deleted = connection.execute(
                update(ledger)
                .where(
                    among(connection, ledger.c.address, [one.address for one in gone]),
                    ledger.c.state == LedgerState.CONDEMNED,
                    ledger.c.run_id.is_(None),
                )
                .values(state=LedgerState.DELETED)
                .returning(ledger.c.size)
            ).scalars()
            # Of several reapers at once, the one that changes a row counts it.
            sizes = [size or 0 for size in deleted]
            if sizes:
                now = to_micros(self.database.now(connection, self.clock))
                add_reaped(connection, repo_uid, len(sizes), sum(sizes), now)

        self.database.transact(work)


def check_inside(repo_uid: str, due: Sequence[Due]) -> None:
    """Refuse addresses that are not objects of the repository, whatever the ledger says."""
    inside = f"{addresses.repository(repo_uid)}branches/"
    for one in due:
        if not one.address.startswith(inside):
            raise OwnedAddress(
                f"{one.address!r} lies outside {inside}; nothing there is deleted online",
                hint="the ledger of this catalog is damaged",
            )


def _failed(error: ReclaimError) -> bool:
    log.warning("a condemned object was not deleted: %s", error)
    return False
